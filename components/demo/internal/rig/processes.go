package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one process of the local cloud.
type process struct {
	pid, parent int
	state       string
	// name is the kernel's name: at most 15 bytes.
	name string
}

// tree is the daemon and all its descendants: CVMs and their processes, and the rendezvous.
// Processes of a CVM are below its first process, in every namespace.
func tree(root int) ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	below := map[int][]process{}
	var out []process
	for _, p := range all {
		below[p.parent] = append(below[p.parent], p)
		if p.pid == root {
			out = append(out, p)
		}
	}
	for i := 0; i < len(out); i++ {
		out = append(out, below[out[i].pid]...)
	}
	return out, nil
}

// Pids are the processes of the local cloud: its daemon and all that runs below it.
func (r *Rig) Pids() ([]int, error) {
	cloud, err := r.Cloud()
	if err != nil {
		return nil, err
	}
	all, err := tree(cloud.PID)
	pids := make([]int, 0, len(all))
	for _, p := range all {
		pids = append(pids, p.pid)
	}
	return pids, err
}

func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := describe(pid); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// describe reads one process; not ok when it is gone.
func describe(pid int) (process, bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// "pid (name) state parent ...", and the name may hold anything.
	text := string(raw)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, state: fields[0], name: text[open+1 : end]}, err == nil
}

// CutPower ends every process of the local cloud at one instant, without a word to any
// of them, and waits until the kernel has buried them. It returns how many there were,
// by name.
func (r *Rig) CutPower(ctx context.Context) (map[string]int, error) {
	cloud, err := r.Cloud()
	if err != nil {
		return nil, err
	}
	if cloud.PID <= 1 {
		return nil, errors.New("the local cloud's description names no process")
	}
	victims, err := tree(cloud.PID)
	if err != nil {
		return nil, err
	}
	if len(victims) == 0 {
		return nil, fmt.Errorf("the local cloud's process %d is gone already", cloud.PID)
	}
	for _, p := range victims {
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("kill %s (pid %d): %w", p.name, p.pid, err)
		}
	}
	r.hangUp()
	count := map[string]int{}
	for _, p := range victims {
		count[p.name]++
		if err := buried(ctx, p); err != nil {
			return count, err
		}
	}
	return count, nil
}

// buried waits until a process is gone, or is a zombie that its parent has not reaped yet.
func buried(ctx context.Context, p process) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		now, ok := describe(p.pid)
		if !ok || now.name != p.name || slices.Contains([]string{"Z", "X"}, now.state) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s (pid %d) does not end: %w", p.name, p.pid, ctx.Err())
		case <-tick.C:
		}
	}
}
