package pgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a process as a scan saw it.
type Process struct {
	PID   int
	Group int
	Start uint64 // in ticks since the boot: it tells the process from a later one with its number

	parent  int
	threads int
	state   byte
}

// Childless reports whether this process has no children, not even such that have ended and are not
// reaped. A process that adopts orphans then has no descendants either: each of them would have a
// living ancestor that is a child of ours, or be one.
func Childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// Children returns the children of this process. False means that /proc does not tell.
func Children() ([]Process, bool) {
	list, ok := lister()
	return found(list, self()), ok
}

// Descendants returns all processes below this one, parents before their children, without those
// to skip and what is below them. False means that /proc does not tell.
//
// It is no snapshot. A process that its parent leaves behind meanwhile may be missing: it has
// become a child of ours, and the next scan sees it.
func Descendants(skip func(Process) bool) ([]Process, bool) {
	list, ok := lister()
	var all []Process
	for _, child := range found(list, self()) {
		if !skip(child) {
			all = append(all, child)
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, found(list, all[i])...)
	}
	return all, ok
}

// found returns the children of a process that are still there. A number that belongs to somebody
// else by now has another parent.
func found(list func(Process) []int, parent Process) []Process {
	var all []Process
	for _, pid := range list(parent) {
		if p, ok := Look(pid); ok && (p.parent == parent.PID || p.parent == os.Getpid()) {
			all = append(all, p)
		}
	}
	return all
}

// self is this process, which has several threads.
func self() Process { return Process{PID: os.Getpid(), threads: 2} }

// Look returns the process that has a number now.
func Look(pid int) (Process, bool) {
	_, f, ok := ReadStat(strconv.Itoa(pid))
	if !ok || len(f) < 20 {
		return Process{}, false
	}
	p := Process{PID: pid, state: f[0][0]}
	var errs [4]error
	p.parent, errs[0] = strconv.Atoi(string(f[1]))
	p.Group, errs[1] = strconv.Atoi(string(f[2]))
	p.threads, errs[2] = strconv.Atoi(string(f[17]))
	p.Start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

// lister returns a function that lists the children of a process. The kernel may list them in a
// file; otherwise all processes are read once, and each names its parent.
func lister() (list func(Process) []int, ok bool) {
	if self, _, found := ReadStat("self"); !found || self != os.Getpid() { // of another container
		return func(Process) []int { return nil }, false
	}
	if _, err := read("/proc/thread-self/children"); err == nil {
		return listed, true
	}
	return searched()
}

func searched() (list func(Process) []int, ok bool) {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, there := Look(pid); there {
				children[p.parent] = append(children[p.parent], pid)
			}
		}
	}
	return func(p Process) []int { return children[p.PID] }, err == nil
}

// listed reads the children of each thread of a process.
func listed(p Process) (all []int) {
	dir := "/proc/" + strconv.Itoa(p.PID) + "/task/"
	threads := []string{strconv.Itoa(p.PID)}
	if p.threads != 1 {
		entries, _ := os.ReadDir(dir) //nolint:errcheck // ended meanwhile
		threads = threads[:0]
		for _, e := range entries {
			threads = append(threads, e.Name())
		}
	}
	for _, thread := range threads {
		text, _ := read(dir + thread + "/children") //nolint:errcheck // ended meanwhile
		for number := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(number)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// Signal sends a signal to a process, and never to another one that has its number by now. It is no
// error if the process has ended.
//
// A descriptor of the process keeps its identity: if the number still had the same start after the
// descriptor was opened, it is that of this process. Where there are no such descriptors (before
// Linux 5.3, or forbidden), only the moment between the comparison and the signal remains.
func (p Process) Signal(s syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() //nolint:errcheck // nothing was written
	}
	if now, ok := Look(p.PID); !ok || now.Start != p.Start {
		return nil
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, s, nil, 0)
	} else {
		err = syscall.Kill(p.PID, s)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// String names the process for people.
func (p Process) String() string {
	name, _ := read("/proc/" + strconv.Itoa(p.PID) + "/comm") //nolint:errcheck // ended meanwhile
	return fmt.Sprintf("process %d (%s)", p.PID, bytes.TrimSpace(name))
}

// Stopped reports whether the process was stopped when it was seen.
func (p Process) Stopped() bool { return p.state == 'T' || p.state == 't' }

// Still reports whether nothing of a process that was sent SIGSTOP executes now.
func (p Process) Still() bool {
	now, ok := Look(p.PID)
	return !ok || now.Start != p.Start || threadsAre(strconv.Itoa(p.PID), still)
}

// read returns a file of /proc. These have no size, and os.ReadFile makes twice the system calls.
func read(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() //nolint:errcheck // nothing was written
	text := make([]byte, 0, 1024)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return text, nil
		}
		text = text[:len(text)+n]
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
	}
}
