package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"time"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/trace"
	"cadre.dev/core/clusterid"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/exec/logring"
	"cadre.dev/overlay"
	"cadre.dev/platform"
)

// Config of one coordinator.
type Config struct {
	Cluster string
	// Slot is coordinator-<n>. It determines this process's virtual address and Consul node. The
	// right to be a coordinator comes from the app key.
	Slot string
	// Replicas is how many coordinators the cluster has: 1, 3 or 5.
	Replicas int
	// PlatformDriver names the driver of Deps.Platform, one of group.Platforms; empty: phala. Groups of
	// another platform are refused.
	PlatformDriver string
	Trust          attest.Trust
	// TrustFile is the text that Trust was parsed from. Run rejects a text that is not part of this
	// CVM's measured compose file.
	TrustFile []byte
	// RevisionMark is the mark of the compose text that started this coordinator; "": none.
	RevisionMark string
	Gateway      overlay.Gateway
	// Rendezvous servers help to find direct paths; none: only the gateway is used.
	Rendezvous []overlay.Rendezvous
	// Paths are the kinds of path that may be used; nil: all.
	Paths []overlay.PathKind
	// RestoreClusterID is the cluster ID of a backup that is to be restored, an untrusted hint; "":
	// none.
	RestoreClusterID string
	// StateDir is on the CVM's encrypted disk, RunDir in memory.
	StateDir, RunDir string
	ConsulBinary     string
	Datacenter       string
	// SessionListen, APIListen and StatusListen are listen addresses; empty means
	// ":7443", ":7444" and "127.0.0.1:7070".
	SessionListen, APIListen, StatusListen string
	Version                                string
	// TracesEndpoint is the URL of an OTLP collector for the spans of rollouts; empty: none are sent.
	TracesEndpoint string
}

// Guest is the guest agent of this CVM.
type Guest = attest.Guest

// Verifier verifies that evidence is genuine.
type Verifier = admission.Verifier

// Deps are the interfaces to the outside.
type Deps struct {
	Guest    Guest
	Platform platform.Platform
	// Verifier is for tests; nil: New makes one from the trust file, with its collateral.
	Verifier Verifier
	Log      *slog.Logger
	// OwnLog has the last lines of Log, for operators; nil: they get none.
	OwnLog *logring.Ring
	// Now is the clock; nil: the system's.
	Now func() time.Time
	// Timing of the engine; zero fields take their defaults.
	Timing rollout.Timing
	// Failpoint is called at points at which a test may end the process; nil in production. See
	// package operate for the names.
	Failpoint func(name string)
}

var clusterForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// complete sets defaults and reports every problem at once.
func (c *Config) complete() error {
	var errs []error
	if !clusterForm.MatchString(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q: want lower-case letters, digits and '-', at most 40, from a letter", c.Cluster))
	}
	n, err := peering.CoordinatorOrdinal(c.Slot)
	if err != nil {
		errs = append(errs, err)
	}
	switch c.Replicas {
	case 1, 3, 5:
		if err == nil && n >= c.Replicas {
			errs = append(errs, fmt.Errorf("slot %q: with %d replicas the last one is %s", c.Slot, c.Replicas, peering.CoordinatorSlot(c.Replicas-1)))
		}
	default:
		errs = append(errs, fmt.Errorf("replicas %d: want 1, 3 or 5, so that a majority exists", c.Replicas))
	}
	if c.Trust.Cluster != "" && c.Trust.Cluster != c.Cluster {
		errs = append(errs, fmt.Errorf("cluster %q: the trust file is for cluster %q", c.Cluster, c.Trust.Cluster))
	}
	if c.Gateway.Domain == "" {
		errs = append(errs, errors.New("gateway domain: is missing; set --gateway-domain or CADRE_GATEWAY_DOMAIN"))
	}
	if c.RestoreClusterID != "" {
		if err := clusterid.Check(c.RestoreClusterID); err != nil {
			errs = append(errs, fmt.Errorf("restore cluster ID (CADRE_RESTORE_CLUSTER_ID): %w", err))
		}
	}
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&c.StateDir, "/var/lib/cadre")
	fill(&c.RunDir, "/run/cadre")
	fill(&c.ConsulBinary, "consul")
	fill(&c.Datacenter, "dc1")
	fill(&c.SessionListen, fmt.Sprintf(":%d", group.SessionPort))
	fill(&c.APIListen, fmt.Sprintf(":%d", group.CoordinatorAPIPort))
	fill(&c.StatusListen, fmt.Sprintf("127.0.0.1:%d", group.AgentAPIPort))
	// Metrics and health are for this CVM only: a port on another address is reachable from the
	// gateway (TOK-18).
	if host, _, err := net.SplitHostPort(c.StatusListen); err != nil {
		errs = append(errs, fmt.Errorf("status listen %q: %w", c.StatusListen, err))
	} else if at, err := netip.ParseAddr(host); err != nil || !at.IsLoopback() {
		errs = append(errs, fmt.Errorf("status listen %q: LISTENER_FORBIDDEN: want a loopback address, e.g. 127.0.0.1:7070", c.StatusListen))
	}
	errs = append(errs, trace.CheckEndpoint(c.TracesEndpoint))
	return errors.Join(errs...)
}

func (c *Config) ordinal() int {
	n, err := peering.CoordinatorOrdinal(c.Slot)
	if err != nil {
		return 0 // complete rejected it
	}
	return n
}

func (c *Config) vip() netip.Addr { return netip.MustParseAddr(peering.CoordinatorVIP(c.ordinal())) }

// otherVIPs returns the other coordinators' addresses.
func (c *Config) otherVIPs() []string {
	var out []string
	for n := range c.Replicas {
		if n != c.ordinal() {
			out = append(out, peering.CoordinatorVIP(n))
		}
	}
	return out
}

func (d *Deps) complete() error {
	if d.Guest == nil || d.Platform == nil {
		return errors.New("coordinator: Guest and Platform are needed")
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	habits := d.Platform.Habits()
	d.Timing.Settle, d.Timing.StopFirst = cmp.Or(d.Timing.Settle, habits.Settle), habits.StopFirst
	if d.Failpoint == nil {
		d.Failpoint = func(string) {}
	}
	return nil
}
