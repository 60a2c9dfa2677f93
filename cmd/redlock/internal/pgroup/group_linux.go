package pgroup

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// AdoptOrphans switches whether orphaned descendants are reparented to us. Those that already were
// stay ours.
func AdoptOrphans(on bool) {
	flag := 0
	if on {
		flag = 1
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(flag), 0, 0, 0) //nolint:errcheck // since Linux 3.4
}

// newcomerBound limits how many process numbers Dead checks that were assigned meanwhile.
const newcomerBound = 1000

// Dead reports whether every process left in a process group is a zombie that nobody has
// reaped. If too much happens meanwhile it says no.
//
// A member created after the process list was read is not on that list, and its parent may be a
// zombie by now. So we check every number assigned since we began, in order: a member among them
// exists by then, because its parent ended after the fork, and we saw the parent's end before. That
// leaves a member whose number was assigned earlier but which was not there yet for the first list.
// It is on the second.
func Dead(group int) bool {
	before, ok := newest()
	for range 2 {
		if is, known := groupIs(group, zombie); !is || !known {
			return false
		}
	}
	return ok && newcomersDead(group, before)
}

// newcomersDead reports whether no member of a process group with a higher number than this is
// alive. It ends once no number was assigned while it checked.
func newcomersDead(group, above int) bool {
	for seen := above; ; {
		last, ok := newest()
		switch {
		case !ok || last < seen || last-above > newcomerBound: // numbers wrap around
			return false
		case last == seen:
			return true
		}
		for seen < last {
			seen++
			if !memberIs(strconv.Itoa(seen), group, zombie) {
				return false
			}
		}
	}
}

// Still reports whether nothing of a process group that was sent SIGSTOP executes. A process
// that waits for a device (D) stops before it executes anything; so does a parent in vfork, as long
// as its child is stopped. A process that we cannot see is assumed to stop.
func Still(group int) bool {
	is, _ := groupIs(group, still)
	return is
}

func still(state byte) bool { return zombie(state) || state == 'T' || state == 't' || state == 'D' }

func zombie(state byte) bool { return state == 'Z' || state == 'X' }

// groupIs reports whether all threads of a process group are in such states: a process whose first
// thread has ended looks like a zombie while its other threads run. Not all are known where /proc
// shows the processes of another container, or hides those of other users (hidepid).
func groupIs(group int, so func(state byte) bool) (is, known bool) {
	_, _, all := ReadStat("1")
	entries, err := os.ReadDir("/proc")
	if !Shown() || err != nil {
		return true, false
	}
	for _, e := range entries {
		if name := e.Name(); name[0] < '1' || name[0] > '9' {
			continue
		}
		if !memberIs(e.Name(), group, so) {
			return false, true
		}
	}
	return true, all
}

// memberIs reports whether all threads of a process are in such states, if it belongs to the group.
func memberIs(process string, group int, so func(state byte) bool) bool {
	if _, fields, ok := ReadStat(process); !ok || string(fields[2]) != strconv.Itoa(group) {
		return true // ended meanwhile, or not in the group
	}
	return threadsAre(process, so)
}

func threadsAre(process string, so func(state byte) bool) bool {
	threads, err := os.ReadDir("/proc/" + process + "/task")
	if err != nil {
		return true // ended meanwhile
	}
	for _, thread := range threads {
		if _, fields, ok := ReadStat(process + "/task/" + thread.Name()); ok && !so(fields[0][0]) {
			return false
		}
	}
	return true
}

// newest returns the number that was last assigned to a process or thread; false if that is
// unknown.
func newest() (int, bool) {
	text, err := os.ReadFile("/proc/loadavg")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 5 {
		return 0, false
	}
	last, err := strconv.Atoi(string(fields[4]))
	return last, err == nil
}

// Parent returns the number of the parent of a process; 0 if that is unknown.
func Parent(pid int) int {
	_, fields, ok := ReadStat(strconv.Itoa(pid))
	if !ok {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1])) //nolint:errcheck // the kernel writes a number
	return parent
}

// ReadStat returns the number of a process or thread, and the fields after its name: state, parent,
// group.
func ReadStat(path string) (pid int, fields [][]byte, ok bool) {
	text, err := read("/proc/" + path + "/stat")
	// A name may contain both.
	begin, end := bytes.IndexByte(text, ' '), bytes.LastIndexByte(text, ')')
	if err != nil || begin < 0 || end < 0 {
		return 0, nil, false
	}
	pid, err = strconv.Atoi(string(text[:begin]))
	fields = bytes.Fields(text[end+1:])
	return pid, fields, err == nil && len(fields) >= 3
}
