package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
)

// HostsFile resolves names by a file of "address name..." lines, as the agent
// writes it for workloads, and leaves every other name to the system. The file
// is read at each look-up: Peers come and go.
func HostsFile(path string) func(ctx context.Context, host string) ([]string, error) {
	return func(ctx context.Context, host string) ([]string, error) {
		if net.ParseIP(host) != nil {
			return []string{host}, nil
		}
		file, err := os.Open(path)
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
