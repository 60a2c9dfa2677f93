package job

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// try finds out whether the kernel can execute a command: it executes it, traced, and kills it
// before its first instruction. Nothing less can tell: formats that are registered
// (binfmt_misc), interpreters and their interpreters, and the limits of arguments decide.
//
// It returns nil if that is not known: a failure that may pass, or a kernel that lets nobody trace.
func try(path string, argv, env []string) error {
	attributes := ChildAttributes() // if we are killed before we kill it, the kernel does
	attributes.Ptrace = true
	runtime.LockOSThread() // its parent, without which it would be killed or run on
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attributes})
	if err != nil {
		return refusal(path, err)
	}
	pid := process.Pid
	_ = process.Release() //nolint:errcheck // only a process that was released fails
	status := await(pid)
	if status.Stopped() { // by the kernel, behind the execution
		_ = syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // nobody else waits for it, so it is there
		await(pid)
	}
	if status.Signaled() && status.Signal() == syscall.SIGSEGV || isTruncated(path) {
		return errors.New("the file is damaged: it is too short for what its head says")
	}
	return nil
}

func await(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// lasting are the failures of an execution that stay until somebody changes the file, the arguments
// or the environment, whoever traces.
var lasting = []error{
	unix.ENOEXEC, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.E2BIG, unix.ELIBBAD,
}

// refusal returns why a file cannot be executed, for people; nil if it may be possible later.
func refusal(path string, err error) error {
	interpreter, missing := missingInterpreter(path)
	switch {
	case missing != nil:
		return fmt.Errorf("its interpreter %q: %w", interpreter, missing)
	case !slices.ContainsFunc(lasting, func(e error) bool { return errors.Is(err, e) }):
		return nil
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%w: it is a script without #! in its first line, or for another machine, or damaged", unix.ENOEXEC)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: the interpreter or loader that it names is missing", unix.ENOENT)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%w: its arguments and environment are more than the kernel takes", unix.E2BIG)
	default:
		return reason(err)
	}
}

// reason returns the error of the kernel, without what was asked of it.
func reason(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

// headSize is how much of a script the kernel looks at.
const headSize = 256

// mostInterpreters is above the kernel's limit for scripts whose interpreters are scripts.
const mostInterpreters = 8

// missingInterpreter returns the first interpreter of a script that cannot be executed, and why.
func missingInterpreter(path string) (interpreter string, why error) {
	for range mostInterpreters {
		head := make([]byte, headSize)
		file, _ := open(path)
		n, _ := file.ReadAt(head, 0) //nolint:errcheck // a short file is no error
		_ = file.Close()             //nolint:errcheck // nothing was written
		line, isScript := bytes.CutPrefix(head[:n], []byte("#!"))
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }) // a CR is part of the name
		if !isScript || len(words) == 0 {
			return "", nil
		}
		path = string(words[0])
		if !strings.Contains(path, "/") {
			path = "./" + path // the kernel does not search
		}
		if _, err := exec.LookPath(path); err != nil {
			return path, reason(err)
		}
	}
	return "", nil
}

// open opens a regular file, and returns its size; nil and 0 if that is impossible. Methods of a
// nil file return errors.
func open(path string) (*os.File, uint64) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0
	}
	return file, uint64(info.Size())
}

// isTruncated reports whether a program ends before what its header tells of. The kernel maps that
// all the same, and the program dies when it touches what is not there.
func isTruncated(path string) bool {
	file, size := open(path)
	defer file.Close() //nolint:errcheck // nothing was written
	var header elf.Header64
	err := binary.Read(io.NewSectionReader(file, 0, headSize), binary.NativeEndian, &header)
	if err != nil || string(header.Ident[:4]) != elf.ELFMAG || elf.Class(header.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return false
	}
	for i := range int64(header.Phnum) {
		var segment elf.Prog64
		at := int64(header.Phoff) + i*int64(header.Phentsize)
		if err := binary.Read(io.NewSectionReader(file, at, headSize), binary.NativeEndian, &segment); err != nil {
			return false // the kernel knows better
		}
		if elf.ProgType(segment.Type) == elf.PT_LOAD && segment.Off+segment.Filesz > size {
			return true
		}
	}
	return false
}
