package rig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	coordinatorService = "coordinator"
	// failpointFile is where a coordinator of clusters/light looks for the point at which
	// its process is to end.
	failpointFile = "run/cadre/failpoint"
	// consulConfig has Consul's management token, which only the coordinator itself has; the
	// operator of a local cloud can read it there.
	consulConfig = "run/cadre/consul/consul.json"
	// tokenFile is where Consul's own tool is shown it for one command.
	tokenFile = "run/cadre/rig-token" //nolint:gosec // a place
)

// Arm makes a coordinator's process end when it reaches a point.
func (r *Rig) Arm(coordinator, point string) error {
	root, err := r.coordinatorRoot(coordinator)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, failpointFile), []byte(point), 0o600)
}

// coordinatorPID finds a coordinator's process.
func (r *Rig) coordinatorPID(coordinator string) (int, error) {
	cloud, err := r.Cloud()
	if err != nil {
		return 0, err
	}
	all, err := tree(cloud.PID)
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if isCoordinator(p.pid, coordinator) {
			return p.pid, nil
		}
	}
	return 0, fmt.Errorf("no process of %s runs in the local cloud", coordinator)
}

// coordinatorProcess is where this machine shows a coordinator's process. The image has no
// shell that could look into it from within.
func (r *Rig) coordinatorProcess(coordinator string) (string, error) {
	pid, err := r.coordinatorPID(coordinator)
	return filepath.Join("/proc", strconv.Itoa(pid)), err
}

// coordinatorRoot is the root of a coordinator's container as this machine sees it.
func (r *Rig) coordinatorRoot(coordinator string) (string, error) {
	process, err := r.coordinatorProcess(coordinator)
	return filepath.Join(process, "root"), err
}

func isCoordinator(pid int, slot string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	program, _, _ := bytes.Cut(line, []byte{0})
	if err != nil || filepath.Base(string(program)) != "cadre-coordinator" {
		return false
	}
	env, err := os.ReadFile(filepath.Join(proc, "environ"))
	return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(one []byte) bool { return string(one) == "CADRE_SLOT="+slot })
}

// showToken leaves Consul's management token in a file of the coordinator's memory, which
// hide removes.
func (r *Rig) showToken(coordinator string) (hide func() error, err error) {
	root, err := r.coordinatorRoot(coordinator)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, consulConfig))
	if err != nil {
		return nil, fmt.Errorf("read Consul's configuration at %s: %w", coordinator, err)
	}
	var config struct {
		ACL struct {
			Tokens struct {
				Management string `json:"initial_management"`
			} `json:"tokens"`
		} `json:"acl"`
	}
	if err := json.Unmarshal(text, &config); err != nil || config.ACL.Tokens.Management == "" {
		return nil, errors.Join(fmt.Errorf("consul's configuration at %s names no management token", coordinator), err)
	}
	file := filepath.Join(root, tokenFile)
	if err := os.WriteFile(file, []byte(config.ACL.Tokens.Management), 0o600); err != nil {
		return nil, fmt.Errorf("show the token to Consul's tool: %w", err)
	}
	return func() error {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}
