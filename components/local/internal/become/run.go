package become

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// The exit codes of shells and container engines for a command that did not run.
const (
	codeFailed     = 125
	codeNotAllowed = 126
	codeNotFound   = 127
)

const (
	prCapAmbient         = 47
	prCapAmbientClearAll = 4
	prCapBoundingDrop    = 24
	prCapBoundingRead    = 23
	prSetNoNewPrivs      = 38
	lastCapability       = 63
	unlimited            = ^uint64(0)
)

// resources are the limits by the names of prlimit.
var resources = map[string]int{
	"cpu": 0, "fsize": 1, "data": 2, "stack": 3, "core": 4, "rss": 5, "nproc": 6, "nofile": 7, "memlock": 8, "as": 9,
	"locks": 10, "sigpending": 11, "msgqueue": 12, "nice": 13, "rtprio": 14, "rttime": 15,
}

// Run carries out args, of Command.Args. It returns only on failure, with the exit code and the
// error.
func Run(args []string) (int, error) {
	// Capabilities are a thread's; exec is this one's too.
	runtime.LockOSThread()
	if len(args) < 7 || args[5] != "--" {
		return codeFailed, errors.New("it is run by the local cloud only")
	}
	uid, uidErr := ID(args[0])
	gid, gidErr := ID(args[1])
	groups, groupsErr := numbers(args[2])
	caps, capsErr := strconv.ParseUint(args[4], 16, 64)
	if err := errors.Join(uidErr, gidErr, groupsErr, capsErr); err != nil {
		return codeFailed, err
	}
	if err := setLimits(args[3]); err != nil {
		return codeFailed, err
	}
	if err := drop(caps); err != nil {
		return codeFailed, err
	}
	if err := syscall.Setgroups(groups); err != nil {
		return codeFailed, fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return codeFailed, fmt.Errorf("set group: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return codeFailed, fmt.Errorf("set user: %w", err)
	}
	argv := args[6:]
	path, err := find(argv[0])
	if err == nil {
		err = syscall.Exec(path, argv, os.Environ())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return codeNotFound, fmt.Errorf("run %q: not found in the image", argv[0])
	}
	return codeNotAllowed, fmt.Errorf("run %q: %w", argv[0], err)
}

func numbers(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := ID(part)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func setLimits(text string) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		soft, hard, _ := strings.Cut(value, ":")
		number, known := resources[name]
		if !known {
			return fmt.Errorf("no limit is called %q", name)
		}
		var l syscall.Rlimit
		for _, x := range []struct {
			text string
			to   *uint64
		}{{soft, &l.Cur}, {hard, &l.Max}} {
			if x.text == "unlimited" {
				*x.to = unlimited
				continue
			}
			n, err := strconv.ParseUint(x.text, 10, 64)
			if err != nil {
				return fmt.Errorf("limit %s: %w", name, err)
			}
			*x.to = n
		}
		if err := syscall.Setrlimit(number, &l); err != nil {
			return fmt.Errorf("set limit %s to %s: %w", name, value, err)
		}
	}
	return nil
}

// drop leaves the thread no way to more than caps.
func drop(caps uint64) error {
	if err := prctl(prSetNoNewPrivs, 1, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := prctl(prCapAmbient, prCapAmbientClearAll, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for n := range uintptr(lastCapability) {
		has, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapBoundingRead, n, 0)
		if errno != 0 {
			break // the kernel's last one was before
		}
		if has == 0 || caps&(1<<n) != 0 {
			continue
		}
		if err := prctl(prCapBoundingDrop, n, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", n, err)
		}
	}
	return clearInheritable()
}

func prctl(option, a, b uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// find returns the program that a shell would run: a path unchanged, a name from PATH.
func find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var denied error
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + name
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
		denied = fs.ErrPermission
	}
	if denied != nil {
		return "", denied
	}
	return "", fs.ErrNotExist
}
