package container

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// becomeSubreaper makes this process inherit its orphaned descendants.
func becomeSubreaper() error {
	const prSetChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("become a subreaper: %w", errno)
	}
	return nil
}

// renouncePrivileges keeps this process and all below it from becoming another user by
// running a program.
func renouncePrivileges() error {
	const prSetNoNewPrivs = 38 // PR_SET_NO_NEW_PRIVS
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("renounce privileges: %w", errno)
	}
	return nil
}

// surviveSignals drops signals sent to all processes of the container. They are caught and not
// ignored: programs inherit an ignored signal.
func surviveSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

// keepDescriptors keeps this process's inherited descriptors, except the standard ones, from every
// program that it starts.
func keepDescriptors() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// process is one line of /proc.
type process struct{ pid, parent, group int }

func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // read only
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it ended
		}
		// pid (name) state parent group ...: only the name can hold brackets and blanks.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 3 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		group, _ := strconv.Atoi(fields[2])
		out = append(out, process{pid, parent, group})
	}
	return out
}

// descendants of this process except those of spared children: its own children, and all process
// groups below them. A group of a command has only the command's processes, since each command
// begins a session.
func descendants(spared func(pid int) bool) (children []int, groups map[int]bool) {
	all, here := processes(), os.Getpid()
	family := map[int]bool{here: true}
	groups = map[int]bool{}
	for found := true; found; {
		found = false
		for _, p := range all {
			if family[p.pid] || !family[p.parent] || p.parent == here && spared(p.pid) {
				continue
			}
			family[p.pid], found = true, true
			groups[p.group] = true
			if p.parent == here {
				children = append(children, p.pid)
			}
		}
	}
	delete(groups, syscall.Getpgrp()) // a child that is not a program yet
	return children, groups
}

// killBelow kills every present descendant except spared ones: groups first, since a signal to a
// group also reaches a process that is being forked in it. Children cannot end and be replaced
// meanwhile: only this process reaps them.
func killBelow(spared func(pid int) bool) (children int) {
	list, groups := descendants(spared)
	for group := range groups {
		if group > 1 {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	}
	for _, pid := range list {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(list)
}

// killAll returns when this process has no descendants; note gets each status.
func killAll(note func(pid int, status syscall.WaitStatus)) {
	for {
		options := 0
		if killBelow(func(int) bool { return false }) == 0 {
			options = syscall.WNOHANG // a child inherited just now is not killed yet
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return
		case pid > 0:
			note(pid, status)
		case err == nil:
			time.Sleep(time.Millisecond)
		}
	}
}
