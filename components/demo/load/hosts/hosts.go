// Package hosts finds addresses by names in a hosts file that changes.
package hosts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// File resolves names by a file of "address name..." lines, as the agent
// writes it for workloads, and leaves every other name to the system. The file
// is read at each look-up: Peers and routes come and go. Without the file all names are the
// system's.
func File(path string) func(ctx context.Context, host string) ([]string, error) {
	return func(ctx context.Context, host string) ([]string, error) {
		if net.ParseIP(host) != nil {
			return []string{host}, nil
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return net.DefaultResolver.LookupHost(ctx, host)
		}
		if err != nil {
			return nil, fmt.Errorf("read the hosts file: %w", err)
		}
		defer func() { _ = file.Close() }()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			for i, name := range fields {
				if i > 0 && name == host {
					return fields[:1], nil
				}
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read the hosts file: %w", err)
		}
		return net.DefaultResolver.LookupHost(ctx, host)
	}
}

// Dialer dials "name:port" by a lookup; nil is the system's way.
func Dialer(lookup func(ctx context.Context, host string) ([]string, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if lookup != nil {
			addresses, err := lookup(ctx, host)
			if err != nil {
				return nil, err
			}
			if len(addresses) == 0 {
				return nil, fmt.Errorf("%s has no address", host)
			}
			host = addresses[0]
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(host, port))
	}
}
