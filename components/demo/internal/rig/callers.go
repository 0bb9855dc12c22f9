package rig

import (
	"bufio"
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

// EndIn kills the processes of a Slot's CVM that have one of these names, by the kernel's name, and
// returns them. Its agent's worker must run.
func (r *Rig) EndIn(slot string, names ...string) ([]string, error) {
	agents, err := r.agents()
	if err != nil {
		return nil, err
	}
	network, err := networkOf(agents[slot].worker)
	if err != nil {
		return nil, fmt.Errorf("find the CVM of %s: %w", slot, err)
	}
	cloud, err := r.Cloud()
	if err != nil {
		return nil, err
	}
	all, err := tree(cloud.PID)
	if err != nil {
		return nil, err
	}
	var ended []string
	for _, p := range all {
		if !slices.Contains(names, p.name) {
			continue
		}
		if its, err := networkOf(p.pid); err != nil || its != network {
			continue
		}
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err == nil {
			ended = append(ended, p.name)
		}
	}
	return ended, nil
}

// networkOf names the network of a process: that of its CVM.
func networkOf(pid int) (string, error) {
	return os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
}

// Lines are the lines of a service's log, in a CVM, that contain all these texts.
func (r *Rig) Lines(ctx context.Context, cvm, service string, texts ...string) ([]string, error) {
	log, err := r.logOf(ctx, cvm, service)
	if err != nil {
		return nil, err
	}
	return linesIn(log, texts)
}

// logOf is the file of a service's log.
func (r *Rig) logOf(ctx context.Context, cvm, service string) (string, error) {
	cvms, err := r.CVMs(ctx)
	return filepath.Join(filepath.Dir(r.CloudFile()), "cvms", cvms[cvm].VMUUID, "logs", service+".log"), err
}

func linesIn(log string, texts []string) (lines []string, err error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in := bufio.NewScanner(file)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		lacks := func(text string) bool { return !strings.Contains(in.Text(), text) }
		if !slices.ContainsFunc(texts, lacks) {
			lines = append(lines, in.Text())
		}
	}
	return lines, in.Err()
}

// AwaitLines waits until there are more such lines than n.
func (r *Rig) AwaitLines(ctx context.Context, n int, cvm, service string, texts ...string) error {
	log, err := r.logOf(ctx, cvm, service)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		lines, err := linesIn(log, texts)
		if err == nil && len(lines) > n {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("service %s of %s did not log %q", service, cvm, texts), context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
