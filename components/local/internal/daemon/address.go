package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// anyPort is the listen address of a cloud that was given none.
const anyPort = "127.0.0.1:0"

// hostAddress is one address that the cloud listens on at its host.
type hostAddress struct {
	// name and flag are for messages. A flag of two words is one with a list, and the address is that
	// of the second word in it.
	name, flag string
	// want is host:port. Port 0 is the port of the last start, or for the first one
	// any that is free. had is the address of the last start; empty for the first.
	want, had string
	// Contexts may name had.
	hasCVMs bool
}

// listen opens the address. When another program has the port of the last start, listen fails if
// contexts may name that port, and otherwise takes another port.
func (a hostAddress) listen(ctx context.Context) (net.Listener, error) {
	host, port, err := net.SplitHostPort(a.want)
	if err != nil {
		return nil, fmt.Errorf("--%s: %q is not host:port: %w", a.flag, a.want, err)
	}
	lc := net.ListenConfig{}
	if port != "0" {
		l, err := lc.Listen(ctx, "tcp", a.want)
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", a.flag, a.want, err)
		}
		return l, nil
	}
	_, kept, err := net.SplitHostPort(a.had)
	if err != nil {
		return listenFree(ctx, host)
	}
	address := net.JoinHostPort(host, kept)
	l, err := listenSoon(ctx, address)
	switch {
	case err == nil:
		return l, nil
	case !errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("take %s again, the %s address of the last start: %w", address, a.name, err)
	case a.hasCVMs:
		return nil, fmt.Errorf("port %s, which this cloud's contexts name for the %s, is taken by another program on %s: "+
			"end that program (`ss -ltnp 'sport = :%s'` names it), or start with --%s, a port that is free, and set it in the contexts (`cadre local up --%s ...` does both)",
			kept, a.name, host, kept, a.option(net.JoinHostPort(host, "PORT")), strings.Fields(a.flag)[0])
	}
	return listenFree(ctx, host)
}

// option is the flag with an address.
func (a hostAddress) option(address string) string {
	if flag, item, ok := strings.Cut(a.flag, " "); ok {
		return flag + " " + item + "=" + address
	}
	return a.flag + " " + address
}

// listenSoon tries for a moment: a killed daemon's lock can be free before its sockets are.
func listenSoon(ctx context.Context, address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(ctx), "tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// lowestPort is where listenFree begins to look.
const lowestPort = 15000

// listenFree takes a port below the kernel's range for outgoing connections: any program could hold
// a port of that range when the cloud wants it back.
func listenFree(ctx context.Context, host string) (net.Listener, error) {
	lc := net.ListenConfig{}
	if span := firstOutgoing() - lowestPort; span > 0 {
		for range 100 {
			n, err := rand.Int(rand.Reader, big.NewInt(int64(span)))
			if err != nil {
				return nil, fmt.Errorf("choose a port: %w", err)
			}
			if l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(lowestPort+int(n.Int64())))); err == nil {
				return l, nil
			}
		}
	}
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}

// firstOutgoing is the lowest port that the kernel gives to outgoing connections.
func firstOutgoing() int {
	var low, high int
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(raw), &low, &high)
	}
	if err != nil {
		return 0
	}
	return low
}
