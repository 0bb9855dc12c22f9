package driver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// patroniStatus is the part of GET /patroni that the driver reads.
type patroniStatus struct {
	State            string `json:"state"`
	Role             string `json:"role"` // "master" before 4.0, "primary" since
	Timeline         uint64 `json:"timeline"`
	ReplicationState string `json:"replication_state"`
	Pause            bool   `json:"pause"`
	// ServerVersion is PostgreSQL's, as 150014 for 15.14; 0: it does not run.
	ServerVersion int64 `json:"server_version"`
	// PendingRestart: a parameter is in force only after PostgreSQL starts again; the reason
	// names the parameters since Patroni 4.0.
	PendingRestart       bool                       `json:"pending_restart"`
	PendingRestartReason map[string]json.RawMessage `json:"pending_restart_reason"`
	XLog                 struct {
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

// major is the major version of PostgreSQL, which opens only its own disks; empty: it does not run.
func (s patroniStatus) major() string {
	if s.ServerVersion < 100000 { // before 10 the second number belongs to the major version
		return ""
	}
	return strconv.FormatInt(s.ServerVersion/10000, 10)
}

// fault names the settings that are not in force though PostgreSQL runs.
func (s patroniStatus) fault() string {
	if !s.PendingRestart {
		return ""
	}
	what := strings.Join(slices.Sorted(maps.Keys(s.PendingRestartReason)), ", ")
	return "PostgreSQL has to start again for the new value of " + cmp.Or(what, "a parameter") + " (pending_restart)"
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

// busy lists the work that a stop of self would break.
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

// url is of a REST API, by HTTPS where the settings name an authority.
func (p *patroni) url(addr netip.Addr) string {
	scheme := "http://"
	if p.tls {
		scheme = "https://"
	}
	return scheme + netip.AddrPortFrom(addr, p.port).String()
}

// bases are the possible addresses of the own Patroni: its REST API has only one address.
func (p *patroni) bases() []string {
	out := []string{p.url(p.at)}
	if vip, ok := p.vip(p.self); ok {
		out = append(out, p.url(vip))
	}
	return out
}

// base is where the own Patroni answered last.
func (p *patroni) base() string {
	bases := p.bases()
	return bases[int(p.good.Load())%len(bases)]
}

// local reads path of the own member. It returns a refusal only if every address refuses: an
// address without an answer may be the right one.
func (p *patroni) local(ctx context.Context, path string, v any) error {
	var refused error
	bases := p.bases()
	first := int(p.good.Load())
	for i := range bases {
		at := (first + i) % len(bases)
		err := p.get(ctx, bases[at]+path, v)
		if err == nil {
			p.good.Store(int32(at))
		}
		if err == nil || !isRefused(err) {
			return err
		}
		refused = errors.Join(refused, err)
	}
	return refused
}

// get reads url. It accepts any status with a body that decodes, except a refusal of access.
func (p *patroni) get(ctx context.Context, url string, v any) error {
	status, err := getJSON(ctx, p.client, url, nil, v)
	if hint := accessHint(status); hint != "" {
		return fmt.Errorf("get %s: status %d: %s", url, status, hint)
	}
	return err
}

// accessHint names the settings that a refused access asks for; empty: the access was not refused.
func accessHint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the workload settings username and password_file must be those of Patroni's restapi.authentication"
	case http.StatusForbidden:
		return "Patroni's API wants a client certificate, of the workload settings cert_file and key_file, or does not allow this address (restapi.allowlist)"
	}
	return ""
}

// hint is why the own Patroni returned no state, with the settings to check if the answer was
// unexpected.
func hint(err error) string {
	liveness, why := livenessOf(err)
	if liveness == LivenessAlive {
		why += ": check the workload settings port, ca_file, cert_file and key_file"
	}
	return why
}

// cluster reads the cluster's view and Patroni's dynamic configuration, both by the own member. The
// view is a read of Patroni's store; the configuration is not, and the view counts without it.
func (p *patroni) cluster(ctx context.Context) (c patroniCluster, err error) {
	var (
		config patroniDynamic
		wg     sync.WaitGroup
	)
	wg.Go(func() { _ = p.local(ctx, "/config", &config) })
	err = p.local(ctx, "/cluster", &c)
	wg.Wait()
	c.config = config
	return c, err
}

// remote reads GET /patroni of another member through the overlay.
func (p *patroni) remote(ctx context.Context, slot string, v *patroniStatus) error {
	base, err := p.remoteBase(slot)
	if err != nil {
		return err
	}
	return p.get(ctx, base+"/patroni", v)
}

func (p *patroni) remoteBase(slot string) (string, error) {
	vip, ok := p.vip(slot)
	if !ok {
		return "", fmt.Errorf("the address of %s is not known", slot)
	}
	return p.url(vip), nil
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
