package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"cadre.dev/exec/logring"
	"cadre.dev/overlay"
)

// Config holds the values of all flags.
type Config struct {
	// TrustFile is a literal of the measured compose file.
	TrustFile string
	// RevisionMark is the mark of the compose text that started this agent; "" has none.
	RevisionMark string
	// Gateway locates coordinators and Peers; it is not trusted.
	Gateway overlay.Gateway
	// Rendezvous help to find direct paths; they are not trusted either.
	Rendezvous []overlay.Rendezvous
	// Paths are the kinds of path that may be used; nil means all.
	Paths []overlay.PathKind
	// StateDir is on the preserved disk.
	StateDir string
	// RunDir is a tmpfs of this service alone, with the state of the Boot.
	RunDir string
	// MeshDir is a tmpfs shared with the workloads; MeshGID may read its secrets.
	MeshDir string
	MeshGID int
	// MeshSVID also writes this Slot's certificate and key to <MeshDir>/tls, for a proxy of the
	// workloads. Any process that reads them can act as this Slot towards every Peer.
	MeshSVID bool
	// DstackSocket is the guest agent's; "" is the default search order.
	DstackSocket string
	// ExecDir has the folder of each service that takes commands; absolute.
	ExecDir string
	// ExecBinary is the program that workloads start with, for the mesh folder; "" places none.
	ExecBinary string
	// API is the loopback address for workloads. Consul is the address where they reach Consul
	// through a coordinator; "" disables it.
	API, Consul string
	// XDS is the loopback address at which Envoys find their configuration; "" is for none:
	// no proxies, no routes.
	XDS string
	// Envoy and PgBouncer are programs, paths or names on PATH.
	Envoy, PgBouncer string
	// Listen is the overlay's TCP address.
	Listen  string
	Version string
	// Parent outlives this process; nil: nothing does.
	Parent Parent
	Log    *slog.Logger
	// OwnLog has the last lines of Log, for operators; nil: they get none.
	OwnLog *logring.Ring
}

// check names all problems at once and prepares the folders.
func (c *Config) check() error {
	var errs []error
	if c.Parent == nil {
		c.Parent = newAlone()
	}
	if c.TrustFile == "" {
		errs = append(errs, errors.New("--trust-file is required: the measured trust file"))
	}
	if c.Gateway.Domain == "" {
		errs = append(errs, errors.New("--gateway-domain is required (or CADRE_GATEWAY_DOMAIN)"))
	}
	if c.Gateway.Address != "" {
		if _, _, err := net.SplitHostPort(c.Gateway.Address); err != nil {
			errs = append(errs, fmt.Errorf("--gateway-address: %w; use host:port", err))
		}
	}
	if err := loopback("--api", c.API); err != nil {
		errs = append(errs, err)
	}
	if c.Consul != "" {
		if err := loopback("--consul", c.Consul); err != nil {
			errs = append(errs, err)
		}
	}
	if c.XDS != "" {
		if err := loopback("--xds", c.XDS); err != nil {
			errs = append(errs, err)
		}
	}
	for _, dir := range []struct {
		flag string
		path *string
	}{{"--state-dir", &c.StateDir}, {"--run-dir", &c.RunDir}, {"--mesh-dir", &c.MeshDir}, {"--exec-dir", &c.ExecDir}} {
		if *dir.path == "" {
			errs = append(errs, fmt.Errorf("%s is required", dir.flag))
			continue
		}
		*dir.path = filepath.Clean(*dir.path)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, dir := range []string{c.StateDir, c.RunDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// loopback rejects an address that other machines could reach: wildcards, names and addresses of
// interfaces (TOK-18).
func loopback(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w; use 127.0.0.1:port", flag, err)
	}
	if at, err := netip.ParseAddr(host); err != nil || !at.IsLoopback() {
		return fmt.Errorf("%s: LISTENER_FORBIDDEN: %q is not a loopback address; use 127.0.0.1:port", flag, address)
	}
	return nil
}
