package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"cadre.dev/demo/load/hosts"
)

// inside dials like a process of one CVM: in its network, by the names of its workloads. It
// measures in this process, with the same clock as the others.
type inside struct {
	network *os.File
	lookup  func(ctx context.Context, host string) ([]string, error)
}

// inside enters the network of a Slot's CVM.
func (r *Rig) inside(slot string) (*inside, error) {
	agents, err := r.agents()
	if err != nil {
		return nil, err
	}
	a, found := agents[slot]
	if !found {
		return nil, fmt.Errorf("the agent of %s is not found", slot)
	}
	of := filepath.Join("/proc", strconv.Itoa(a.worker))
	network, err := os.Open(filepath.Join(of, "ns/net"))
	if err != nil {
		return nil, fmt.Errorf("find the network of %s: %w", slot, err)
	}
	return &inside{network, hosts.File(filepath.Join(of, "root/run/mesh/hosts"))}, nil
}

func (i *inside) close() { _ = i.network.Close() }

// dial makes the socket in the CVM's network, where it stays.
func (i *inside) dial(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: a thread of another network ends here
		if err := unix.Setns(int(i.network.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: fmt.Errorf("enter the CVM's network, as root: %w", err)}
			return
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		done <- result{conn, err}
	}()
	got := <-done
	return got.conn, got.err
}

// connect logs in to the database of the load, by a name that the CVM knows: of a route,
// or of a Slot.
func (i *inside) connect(ctx context.Context, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("postgres://app@" + name + "/app?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.DialFunc, config.LookupFunc = i.dial, i.lookup
	// A pooler knows of no prepared statement that has a name.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}

// hangUpOn says goodbye, for a moment at most.
func hangUpOn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
