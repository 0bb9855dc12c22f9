// Package localconsul starts local Consul servers for tests and benchmarks: it finds the program,
// reserves free ports on loopback, and waits until the server is ready.
package localconsul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/consul/api"
)

// StartLimit bounds the start of a server on a busy machine.
const StartLimit = 60 * time.Second

// ErrNoBinary means that no Consul binary was found.
var ErrNoBinary = errors.New("no consul binary: set CADRE_CONSUL, put it at .tools/bin/consul (make tools does), or on PATH")

// Binary finds CADRE_CONSUL, .tools/bin/consul in this folder or a parent, or consul on PATH. It
// returns ErrNoBinary when there is none.
func Binary() (string, error) {
	if path := os.Getenv("CADRE_CONSUL"); path != "" {
		return path, nil
	}
	dir, err := os.Getwd()
	for err == nil {
		path := filepath.Join(dir, ".tools", "bin", "consul")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	path, err := exec.LookPath("consul")
	if err != nil {
		return "", ErrNoBinary
	}
	return path, nil
}

// FreePorts returns n different unused ports of 127.0.0.1. It opens all of them before it closes
// any.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// AwaitReady polls the server at addr until a session can be created and destroyed, which needs a
// leader and the node's registration. It waits at most StartLimit. exited closes when the server
// has ended.
func AwaitReady(ctx context.Context, addr, token string, exited <-chan struct{}) error {
	client, err := api.NewClient(&api.Config{Address: addr, Token: token})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("never answered")
	for {
		select {
		case <-exited:
			return errors.New("consul exited")
		case <-ctx.Done():
			return fmt.Errorf("consul is not ready after %v: %w", StartLimit, last)
		case <-tick.C:
		}
		write := (&api.WriteOptions{}).WithContext(ctx)
		id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{TTL: "10s", LockDelay: time.Millisecond}, write)
		if err == nil {
			_, err = client.Session().Destroy(id, write)
		}
		if err == nil {
			return nil
		}
		last = err
	}
}
