package pgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a process as a scan saw it.
type Process struct {
	PID   int
	Group int
	Start uint64 // in ticks since the boot: it tells the process from a later one with its number; 0 if /proc does not show it

	parent  int
	threads int
	state   byte // 0 if /proc does not show it
}

// Childless reports whether this process has no children, not even such that have ended and are not
// reaped. A process that adopts orphans then has no descendants either: each of them would have a
// living ancestor that is a child of ours, or be one.
func Childless() bool { return errors.Is(seek(unix.P_ALL, 0), unix.ECHILD) }

// seek returns nil if this process has such a child. It does not wait for its end, nor reap it.
func seek(kind, number int) error {
	return unix.Waitid(kind, number, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
}

// Shown reports whether /proc shows this process, and so what it starts. It may not be mounted, or
// be that of another PID namespace.
func Shown() bool {
	pid, _, ok := ReadStat("self")
	return ok && pid == os.Getpid()
}

// Children returns the children of this process. False means that /proc does not show all of them.
func Children() ([]Process, bool) {
	list, ok := lister()
	all, seen := found(list, self())
	return all, ok && seen
}

// Descendants returns all processes below this one, parents before their children, without those
// to skip and what is below them. False means that /proc does not show all of them.
//
// It is no snapshot. A process that its parent leaves behind meanwhile may be missing: it has
// become a child of ours, and the next scan sees it.
func Descendants(skip func(Process) bool) ([]Process, bool) {
	list, ok := lister()
	all, seen := found(list, self())
	all = slices.DeleteFunc(all, skip)
	for i := 0; i < len(all); i++ {
		more, shown := found(list, all[i])
		all, seen = append(all, more...), seen && shown
	}
	return all, ok && seen
}

// nearBy is how many numbers are tried, which takes some tens of milliseconds.
const nearBy = 1 << 15

// Near returns the children of this process that are found without /proc: by their numbers, if
// these are small, or not far above that of a process.
func Near(pid int) (all []Process) {
	for _, from := range []int{1, max(pid, nearBy)} {
		for number := from; number < from+nearBy; number++ {
			if p, ok := child(number); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// child returns the child of this process that has a number, as far as is known without /proc.
func child(pid int) (Process, bool) {
	if seek(unix.P_PID, pid) != nil { // also for 0, which would be our own group
		return Process{}, false
	}
	group, err := unix.Getpgid(pid)
	return Process{PID: pid, Group: group, parent: os.Getpid(), threads: 1}, err == nil
}

// found returns the children of a process that are still there. A number that belongs to somebody
// else by now has another parent. False means that /proc hides one of them (hidepid): it is there,
// and belongs to another user.
func found(list func(Process) []int, parent Process) (all []Process, seen bool) {
	seen = true
	for _, pid := range list(parent) {
		p, ok := Look(pid)
		switch {
		case !ok:
			seen = seen && errors.Is(syscall.Kill(pid, 0), unix.ESRCH)
		case p.parent == parent.PID || p.parent == os.Getpid():
			all = append(all, p)
		}
	}
	return all, seen
}

// self is this process, which has several threads.
func self() Process { return Process{PID: os.Getpid(), threads: 2} }

// Look returns the process that has a number now, if /proc shows it or it is our child.
func Look(pid int) (Process, bool) {
	_, f, ok := ReadStat(strconv.Itoa(pid))
	if !ok || len(f) < 20 {
		return child(pid)
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
	if !Shown() {
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
	_, _, all := ReadStat("1") // otherwise those of other users are not listed
	return func(p Process) []int { return children[p.PID] }, err == nil && all
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

// Still reports whether nothing of a process that was sent SIGSTOP executes now. Nobody knows of
// one that /proc does not show.
func (p Process) Still() bool {
	now, ok := Look(p.PID)
	return !ok || now.Start != p.Start || now.state != 0 && threadsAre(strconv.Itoa(p.PID), still)
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
