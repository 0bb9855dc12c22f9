package driver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
)

// patroniStatus is the part of GET /patroni that the driver reads.
type patroniStatus struct {
	State            string `json:"state"`
	Role             string `json:"role"` // "master" before 4.0, "primary" since
	Timeline         uint64 `json:"timeline"`
	ReplicationState string `json:"replication_state"`
	Pause            bool   `json:"pause"`
	XLog             struct {
		Location int64 `json:"location"`
		Received int64 `json:"received_location"`
		Replayed int64 `json:"replayed_location"`
		Paused   bool  `json:"paused"`
	} `json:"xlog"`
	Replication []struct {
		Name      string `json:"application_name"`
		State     string `json:"state"`
		SyncState string `json:"sync_state"`
	} `json:"replication"`
	Patroni struct {
		Version string `json:"version"`
		Scope   string `json:"scope"`
		Name    string `json:"name"`
	} `json:"patroni"`
}

func (s patroniStatus) primary() bool { return s.Role == "primary" || s.Role == "master" }

// streams reports whether this primary sends WAL to name right now.
func (s patroniStatus) streams(name string) bool {
	for _, r := range s.Replication {
		if r.Name == name && r.State == "streaming" {
			return true
		}
	}
	return false
}

// streaming are the members of the cluster that this primary sends WAL to right now, sorted.
func (s patroniStatus) streaming(cluster patroniCluster) (names []string) {
	for _, m := range cluster.Members {
		if s.streams(m.Name) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// patroniCluster is the part of GET /cluster that the driver reads.
type patroniCluster struct {
	Members             []patroniMember `json:"members"`
	Pause               bool            `json:"pause"`
	ScheduledSwitchover json.RawMessage `json:"scheduled_switchover"`
}

type patroniMember struct {
	Name  string         `json:"name"`
	Role  string         `json:"role"`
	State string         `json:"state"`
	Tags  map[string]any `json:"tags"`
}

func (m patroniMember) tag(name string) bool {
	set, _ := m.Tags[name].(bool)
	return set
}

func (c patroniCluster) leader() string {
	for _, m := range c.Members {
		if m.Role == "leader" || m.Role == "standby_leader" {
			return m.Name
		}
	}
	return ""
}

func (c patroniCluster) member(name string) (patroniMember, bool) {
	for _, m := range c.Members {
		if m.Name == name {
			return m, true
		}
	}
	return patroniMember{}, false
}

// synchronous reports whether some member is a synchronous standby; then only
// such a member may take over (R56).
func (c patroniCluster) synchronous() bool {
	for _, m := range c.Members {
		if m.Role == "sync_standby" {
			return true
		}
	}
	return false
}

// eligible says why name cannot take over from leader; nil when it can.
func (c patroniCluster) eligible(name string, leader patroniStatus) error {
	m, found := c.member(name)
	switch {
	case !found:
		return errors.New("not a member")
	case m.tag("nofailover"):
		return errors.New("tagged nofailover")
	case c.synchronous() && m.Role != "sync_standby":
		return errors.New("not the synchronous standby")
	case !leader.streams(name):
		return errors.New("not streaming from the leader")
	}
	return nil
}

func (c patroniCluster) anyEligible(self string, leader patroniStatus) bool {
	for _, m := range c.Members {
		if m.Name != self && c.eligible(m.Name, leader) == nil {
			return true
		}
	}
	return false
}

// anyMayLead: a member other than self may lead by what it is, whatever its state. Where
// none may, the leader is the only one of its kind, and waiting for another is for ever.
func (c patroniCluster) anyMayLead(self string) bool {
	for _, m := range c.Members {
		if m.Name != self && !m.tag("nofailover") {
			return true
		}
	}
	return false
}

// busy lists what a stop of self would break.
func busy(self string, me patroniStatus, c patroniCluster) []string {
	var out []string
	if len(c.ScheduledSwitchover) > 0 && string(c.ScheduledSwitchover) != "null" {
		out = append(out, "a switchover is scheduled")
	}
	for _, r := range me.Replication {
		if r.State == "backup" {
			out = append(out, "a base backup is taken from this member by "+r.Name)
		}
	}
	if m, found := c.member(self); found && m.State == "creating replica" {
		out = append(out, "this replica is being created")
	}
	return out
}

// bases are where the own Patroni may listen: its REST API takes one address only.
func (p *patroni) bases() []string {
	out := []string{"http://" + netip.AddrPortFrom(p.at, p.port).String()}
	if vip, ok := p.vip(p.self); ok {
		out = append(out, "http://"+netip.AddrPortFrom(vip, p.port).String())
	}
	return out
}

// base is where the own Patroni answered last.
func (p *patroni) base() string {
	bases := p.bases()
	return bases[int(p.good.Load())%len(bases)]
}

// local reads path of the own member.
func (p *patroni) local(ctx context.Context, path string, v any) error {
	var errs error
	bases := p.bases()
	first := int(p.good.Load())
	for i := range bases {
		at := (first + i) % len(bases)
		_, err := getJSON(ctx, p.client, bases[at]+path, nil, v)
		if err == nil {
			p.good.Store(int32(at))
			return nil
		}
		errs = errors.Join(errs, err)
		if !isRefused(err) {
			break
		}
	}
	return errs
}

// remote reads GET /patroni of another member through the overlay.
func (p *patroni) remote(ctx context.Context, slot string, v *patroniStatus) error {
	base, err := p.remoteBase(slot)
	if err != nil {
		return err
	}
	_, err = getJSON(ctx, p.client, base+"/patroni", nil, v)
	return err
}

func (p *patroni) remoteBase(slot string) (string, error) {
	vip, ok := p.vip(slot)
	if !ok {
		return "", fmt.Errorf("the address of %s is not known", slot)
	}
	return "http://" + netip.AddrPortFrom(vip, p.port).String(), nil
}

// authorization is the header for unsafe methods, read per call so that a
// rotated password needs no restart.
func (p *patroni) authorization() (http.Header, error) {
	if p.user == "" {
		return nil, nil
	}
	password, err := os.ReadFile(p.secret)
	if err != nil {
		return nil, fmt.Errorf("workload setting password_file: %w", err)
	}
	pair := p.user + ":" + strings.TrimSpace(string(password))
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(pair))}}, nil
}

func isRefused(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || (errors.As(err, &op) && op.Op == "dial" && !op.Timeout())
}
