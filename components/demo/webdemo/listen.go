package webdemo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Outside, as the host of a listen address, means every address of the machine except the
// loopback's. A program that listens on all addresses takes its port on the whole of 127.0.0.0/8,
// where the agent listens for Peers and routes of the same port.
const Outside = "outside"

// outsideEvery is the time between two looks for addresses that came or went.
const outsideEvery = 2 * time.Second

// Listen accepts connections at all addresses of a list "host:port,host:port", and gives them to
// serve, once for each listener, until ctx ends. The error belongs to an address that cannot be
// listened on; addresses of Outside may come and go.
func Listen(ctx context.Context, addresses string, serve func(net.Listener)) error {
	var outside []string
	for _, address := range strings.Split(addresses, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(address))
		if err != nil {
			return err
		}
		if host == Outside {
			outside = append(outside, port)
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		go serve(listener)
	}
	if len(outside) == 0 {
		return nil
	}
	held := map[netip.AddrPort]net.Listener{}
	err := follow(ctx, held, outside, serve)
	if err != nil && len(held) == 0 {
		return fmt.Errorf("listen on an address from outside: %w", err)
	}
	go func() {
		look := time.NewTicker(outsideEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				_ = follow(ctx, held, outside, serve) // at the next look
			}
		}
	}()
	return nil
}

// follow listens on new addresses and closes the listeners of removed ones.
func follow(ctx context.Context, held map[netip.AddrPort]net.Listener, ports []string, serve func(net.Listener)) error {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	wanted := map[netip.AddrPort]bool{}
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().IsLoopback() || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		for _, port := range ports {
			if at, err := netip.ParseAddrPort(net.JoinHostPort(prefix.Addr().String(), port)); err == nil {
				wanted[at] = true
			}
		}
	}
	for at, listener := range held {
		if !wanted[at] {
			_ = listener.Close()
			delete(held, at)
		}
	}
	var errs []error
	for at := range wanted {
		if held[at] != nil {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		held[at] = listener
		go serve(listener)
	}
	return errors.Join(errs...)
}
