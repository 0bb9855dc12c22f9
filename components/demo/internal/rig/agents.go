package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// agentProcesses are the two processes of one Slot's agent.
type agentProcesses struct{ parent, worker int }

// agents finds the agents of all Slots of the local cloud, by Slot.
func (r *Rig) agents() (map[string]agentProcesses, error) {
	cloud, err := r.Cloud()
	if err != nil {
		return nil, err
	}
	all, err := tree(cloud.PID)
	if err != nil {
		return nil, err
	}
	out := map[string]agentProcesses{}
	for _, p := range all {
		if !isWorker(p.pid) {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "root/run/mesh/env"))
		if err != nil {
			continue // not admitted yet
		}
		if slot := slotIn(env); slot != "" {
			out[slot] = agentProcesses{parent: p.parent, worker: p.pid}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no agent runs in the local cloud")
	}
	return out, nil
}

// isWorker reports whether a process is an agent's worker.
func isWorker(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	words := bytes.Split(line, []byte{0})
	return err == nil && len(words) > 1 && filepath.Base(string(words[0])) == "cadre-agent" && string(words[1]) == "worker"
}

var slotLine = regexp.MustCompile(`(?m)^CADRE_SLOT='([a-z0-9-]+)'$`)

func slotIn(env []byte) string {
	if m := slotLine.FindSubmatch(env); m != nil {
		return string(m[1])
	}
	return ""
}

// usage is the processes' use up to a moment: processor time, and memory in KiB.
type usage struct {
	at             time.Time
	cpu            time.Duration
	pss, parentPSS float64
	rss            float64
}

func (a agentProcesses) usage() (usage, error) {
	out := usage{at: time.Now()}
	for _, pid := range []int{a.parent, a.worker} {
		cpu, err := cpuOf(pid)
		if err != nil {
			return out, err
		}
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		if err != nil {
			return out, err
		}
		pss := kib(string(text), "Pss:")
		if pid == a.parent {
			out.parentPSS = pss
		}
		out.cpu, out.pss, out.rss = out.cpu+cpu, out.pss+pss, out.rss+kib(string(text), "Rss:")
	}
	return out, nil
}

// clockTick is the unit of times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	return cpuIn(string(text))
}

// cpuIn adds user and system time. The name in brackets may hold anything.
func cpuIn(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat has %d fields", len(fields))
	}
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(errUser, errSystem)
}

// kib reads one line of smaps_rollup; 0 when it is not there.
func kib(text, key string) float64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if at := slices.Index(fields, key); at == 0 && len(fields) > 1 {
			n, _ := strconv.ParseFloat(fields[1], 64)
			return n
		}
	}
	return 0
}
