package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// StoreHost is the address of the local cloud's network that every CVM reaches.
const StoreHost = "10.213.0.1"

// ListenForCVMs listens at StoreHost, in the network of the local cloud, which needs a rendezvous: the
// process of that server is in the network.
func (r *Rig) ListenForCVMs(ctx context.Context, port int) (net.Listener, error) {
	cloud, err := r.Cloud()
	if err != nil {
		return nil, err
	}
	all, err := tree(cloud.PID)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if !strings.HasPrefix("cadre-rendezvous", p.name) {
			continue
		}
		network, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.pid), "ns/net"))
		if err != nil {
			return nil, fmt.Errorf("find the network of the local cloud: %w", err)
		}
		defer network.Close()
		return listenIn(ctx, network, net.JoinHostPort(StoreHost, strconv.Itoa(port)))
	}
	return nil, errors.New("the local cloud has no rendezvous server, whose network has the address")
}

func listenIn(ctx context.Context, network *os.File, address string) (net.Listener, error) {
	type result struct {
		l   net.Listener
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: a thread of another network ends here
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: fmt.Errorf("enter the network of the local cloud, as root: %w", err)}
			return
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", address)
		done <- result{l, err}
	}()
	got := <-done
	return got.l, got.err
}

// ApplyBackups writes the spec of backup.hcl or restored.hcl of clusters/postgres.
func (r *Rig) ApplyBackups(ctx context.Context, file string, flags ...string) error {
	vars, err := r.ImageVars("agent", "patroni")
	if err != nil {
		return err
	}
	return r.apply(ctx, filepath.Join("clusters/postgres", file), append(vars, flags...))
}

// Leader is the slot that leads the group.
func (r *Rig) Leader(ctx context.Context, group string) (string, error) {
	c, err := r.Client()
	if err != nil {
		return "", err
	}
	instances, err := c.Instances(ctx, group)
	if err != nil {
		return "", err
	}
	slot, _, err := leaderOf(instances)
	return slot, err
}

// AsSuperuser logs in to the database of a member from inside its CVM, with the password that the
// CVM has: the file of the secret superuser. The caller closes the connection.
func (r *Rig) AsSuperuser(ctx context.Context, slot, database string) (*pgx.Conn, error) {
	agents, err := r.agents()
	if err != nil {
		return nil, err
	}
	password, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(agents[slot].worker), "root/run/mesh/secrets/superuser"))
	if err != nil {
		return nil, fmt.Errorf("read the password of the superuser at %s: %w", slot, err)
	}
	in, err := r.inside(slot)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig("host=127.0.0.1 user=postgres sslmode=disable dbname=" + database)
	if err != nil {
		return nil, errors.Join(err, in.network.Close())
	}
	config.Password, config.DialFunc = string(password), in.dial
	conn, err := pgx.ConnectConfig(ctx, config)
	in.close()
	return conn, err
}
