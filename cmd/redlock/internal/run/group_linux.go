package run

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes us the parent of descendants whose parents end, or not so any more. Those who
// came to us stay.
func adoptOrphans(on bool) {
	flag := 0
	if on {
		flag = 1
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(flag), 0, 0, 0) //nolint:errcheck // since Linux 3.4
}

// newcomerBound is how many numbers of processes groupDead looks at that were given meanwhile.
const newcomerBound = 1000

// groupDead reports whether all who are left in a process group are zombies, which nobody has
// collected. Where too much happens meanwhile it says no.
//
// A member that was made after the list of processes was read is not on it, and its parent may be a
// zombie by now. So we look at all numbers that were given since we began, in their order: a member
// among them is there by then, because its parent ended behind the fork, and we saw the parent's
// end before. Only one whose number was given earlier, and which was not yet there for the first
// list, is left. It is on the second.
func groupDead(group int) bool {
	before, ok := newest()
	for range 2 {
		if is, known := groupIs(group, zombie); !is || !known {
			return false
		}
	}
	return ok && newcomersDead(group, before)
}

// newcomersDead reports whether no member of a process group with a number above this one is alive.
// It ends when no number has been given while it looked.
func newcomersDead(group, above int) bool {
	for seen := above; ; {
		last, ok := newest()
		switch {
		case !ok || last < seen || last-above > newcomerBound: // numbers begin anew behind the highest
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

// groupStill reports whether nothing of a process group, which was sent SIGSTOP, executes anything.
// One that waits for a device (D) stops before it does; a parent in vfork waits like that for as
// long as its child is stopped. Who is not to be seen, we believe to stop.
func groupStill(group int) bool {
	is, _ := groupIs(group, func(state byte) bool { return zombie(state) || state == 'T' || state == 't' || state == 'D' })
	return is
}

func zombie(state byte) bool { return state == 'Z' || state == 'X' }

// groupIs reports whether the states of all threads of a process group are so: a process whose
// first thread has ended looks like a zombie while others run. All are not known where /proc shows
// the processes of another container, or not those of other users (hidepid).
func groupIs(group int, so func(state byte) bool) (is, known bool) {
	self, _, found := readStat("self")
	_, _, all := readStat("1")
	entries, err := os.ReadDir("/proc")
	if !found || self != os.Getpid() || err != nil {
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

// memberIs reports whether the states of all threads of a process are so, if it is of the group.
func memberIs(process string, group int, so func(state byte) bool) bool {
	if _, fields, ok := readStat(process); !ok || string(fields[2]) != strconv.Itoa(group) {
		return true // ended meanwhile, or none of ours
	}
	threads, err := os.ReadDir("/proc/" + process + "/task")
	if err != nil {
		return true // ended meanwhile
	}
	for _, thread := range threads {
		if _, fields, ok := readStat(process + "/task/" + thread.Name()); ok && !so(fields[0][0]) {
			return false
		}
	}
	return true
}

// newest returns the number that a process or thread got last; false where that is not known.
func newest() (int, bool) {
	text, err := os.ReadFile("/proc/loadavg")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 5 {
		return 0, false
	}
	last, err := strconv.Atoi(string(fields[4]))
	return last, err == nil
}

// readStat returns the number of a process or thread, and the fields behind its name: state,
// parent, group.
func readStat(path string) (pid int, fields [][]byte, ok bool) {
	text, err := os.ReadFile("/proc/" + path + "/stat")
	begin, end := bytes.IndexByte(text, ' '), bytes.LastIndexByte(text, ')') // a name may contain both
	if err != nil || begin < 0 || end < 0 {
		return 0, nil, false
	}
	pid, err = strconv.Atoi(string(text[:begin]))
	fields = bytes.Fields(text[end+1:])
	return pid, fields, err == nil && len(fields) >= 3
}
