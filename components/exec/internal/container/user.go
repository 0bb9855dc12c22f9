package container

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is whom the workload and its commands run as, where init stays root.
type account struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// accountOf reads "name", "id", "name:group" or "id:id" as compose does, with the accounts of
// the image. Groups that the compose file adds to root are the workload's.
func accountOf(text string) (account, error) {
	name, group, grouped := strings.Cut(text, ":")
	u, err := lookUser(name)
	a := account{home: "/"}
	switch {
	case err == nil:
		a.home = u.HomeDir
		if a.uid, err = id(u.Uid); err == nil {
			a.gid, err = id(u.Gid)
		}
		if err == nil && !grouped {
			a.groups, err = groupsOf(u)
		}
	case !grouped:
		return a, fmt.Errorf("--user=%s: %w; write its number and its group's, as in --user=70:70", text, err)
	default:
		a.uid, err = id(name)
	}
	if err == nil && grouped {
		a.gid, err = lookGroup(group)
	}
	if err != nil {
		return a, fmt.Errorf("--user=%s: %w", text, err)
	}
	if a.uid == 0 {
		return a, fmt.Errorf("--user=%s: is root, which the workload is without it", text)
	}
	added, err := addedGroups()
	if err != nil {
		return a, fmt.Errorf("--user=%s: groups of this container: %w", text, err)
	}
	a.groups = append(a.groups, added...)
	slices.Sort(a.groups)
	a.groups = slices.Compact(a.groups)
	return a, nil
}

func lookUser(name string) (*user.User, error) {
	if _, err := id(name); err == nil {
		return user.LookupId(name)
	}
	return user.Lookup(name)
}

func lookGroup(name string) (uint32, error) {
	if n, err := id(name); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return id(g.Gid)
}

// id reads a number of 31 bits: the kernel reads 4294967295 as "unchanged".
func id(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return uint32(n), err
}

func groupsOf(u *user.User) ([]uint32, error) {
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	var out []uint32
	for _, text := range ids {
		n, err := id(text)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// addedGroups are this process's groups that it does not have by being root.
func addedGroups() ([]uint32, error) {
	have, err := os.Getgroups()
	if err != nil {
		return nil, err
	}
	roots := []uint32{0, uint32(os.Getegid())}
	if root, err := user.LookupId("0"); err == nil {
		more, err := groupsOf(root)
		if err != nil {
			return nil, err
		}
		roots = append(roots, more...)
	}
	var out []uint32
	for _, g := range have {
		if !slices.Contains(roots, uint32(g)) {
			out = append(out, uint32(g))
		}
	}
	return out, nil
}

// become returns the credential to start a process as text demands; nil keeps this process's own.
func become(text string) (*syscall.Credential, error) {
	if text == "" {
		return nil, nil
	}
	a, err := accountOf(text)
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("--user=%s: this is user %d: start the service as root (user: \"0:0\" in the compose file)", text, os.Geteuid())
	}
	if home := os.Getenv("HOME"); home == "" || home == rootHome() {
		if err := os.Setenv("HOME", a.home); err != nil {
			return nil, err
		}
	}
	giveOutput(a.uid)
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}, nil
}

func rootHome() string {
	if root, err := user.LookupId("0"); err == nil {
		return root.HomeDir
	}
	return "/"
}

// giveOutput lets the workload open /dev/stdout and the like by name, as container engines do
// for the user that they start.
func giveOutput(uid uint32) {
	for fd := range 3 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO {
			_ = syscall.Fchown(fd, int(uid), -1)
		}
	}
}

// mayEnd fails where init could not pass signals on to pid.
func mayEnd(pid int, as *syscall.Credential) error {
	if as == nil || !errors.Is(syscall.Kill(pid, 0), syscall.EPERM) {
		return nil
	}
	return errors.New("--user: init may not signal the workload: leave it the capability KILL")
}

// startProblem returns why a program could not be started.
func startProblem(what string, err error, as *syscall.Credential) error {
	if as != nil && errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("start %s: %w; --user needs the capabilities SETGID and SETUID", what, err)
	}
	return fmt.Errorf("start %s: %w", what, err)
}
