package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Why returns the reason why networks cannot be made here; "" when they can.
func Why() string {
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "the command ip is not installed"
	}
	return ""
}

// Cable is two hosts joined by a veth pair with the kernel's own offloads.
type Cable struct {
	A, B *Host
	// AddrA and AddrB are the hosts' addresses on the cable; AddrServer is an additional address of
	// B, for a server that must be distinguished from B's other programs.
	AddrA, AddrB, AddrServer netip.Addr
}

// Addresses for benchmarks (RFC 2544), at the end that the NAT lab does not reach.
var (
	addrA      = netip.AddrFrom4([4]byte{198, 19, 255, 1})
	addrB      = netip.AddrFrom4([4]byte{198, 19, 255, 2})
	addrServer = netip.AddrFrom4([4]byte{198, 19, 255, 3})
)

// commandTime bounds each command of the system.
const commandTime = 10 * time.Second

// NewCable makes the two hosts; ctx bounds the making only. The caller must Close it.
func NewCable(ctx context.Context) (_ *Cable, err error) {
	c := Cable{AddrA: addrA, AddrB: addrB, AddrServer: addrServer}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("lay cable: %w", err), c.Close())
		}
	}()
	if c.A, err = newHost(); err != nil {
		return nil, err
	}
	if c.B, err = newHost(); err != nil {
		return nil, err
	}
	for _, h := range []*Host{c.A, c.B} {
		if err := h.ip(ctx, "link", "set", "lo", "up"); err != nil {
			return nil, err
		}
	}
	// The far end is born in B by way of the file that names B's namespace.
	add := exec.CommandContext(ctx, "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), c.B.ns.Fd()))
	if err := start(c.A, add); err != nil {
		return nil, err
	}
	for _, end := range []struct {
		h    *Host
		addr netip.Addr
	}{{c.A, c.AddrA}, {c.B, c.AddrB}} {
		if err := errors.Join(
			end.h.ip(ctx, "addr", "add", end.addr.String()+"/24", "dev", "cable"),
			end.h.ip(ctx, "link", "set", "cable", "up"),
		); err != nil {
			return nil, err
		}
	}
	if err := c.B.ip(ctx, "addr", "add", c.AddrServer.String()+"/24", "dev", "cable"); err != nil {
		return nil, err
	}
	return &c, nil
}

// Close removes both hosts.
func (c *Cable) Close() error {
	var errs []error
	for _, h := range []*Host{c.A, c.B} {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}

// starter is a place in the sense of package worker.
type starter interface {
	Start(cmd *exec.Cmd) error
}

// Run runs a command of the system at a place; its output is in the error.
func Run(ctx context.Context, at starter, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	return start(at, exec.CommandContext(ctx, name, args...))
}

func start(at starter, cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := at.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}
