package clock

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// The interrupt time counts the time that the machine sleeps, to 100 ns. (Its "unbiased" sibling,
// which package time uses, does not.) GetTickCount64 counts it too, but in steps of 16 ms, which is
// too coarse for a validity.
var queryInterruptTime = windows.NewLazySystemDLL("kernelbase.dll").NewProc("QueryInterruptTimePrecise")

// suspendAware is false before Windows 10, which lacks the function.
var suspendAware = queryInterruptTime.Find() == nil

func systemNow() Instant {
	if !suspendAware {
		return runtimeNow()
	}
	var hundredNanos uint64
	_, _, _ = queryInterruptTime.Call(uintptr(unsafe.Pointer(&hundredNanos))) //nolint:errcheck // it returns nothing
	return Instant(hundredNanos * 100)
}
