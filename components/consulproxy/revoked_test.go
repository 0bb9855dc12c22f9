package consulproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/store"
)

// revokedWithin is the promised time of a revocation.
const revokedWithin = 15 * time.Second

// An unadmitted machine has everything except the admission: a certificate of the cluster's CA, the
// addresses of all machines, Envoys, and web's name. When the Boot is admitted, the same machine
// reaches all of it.
func TestAnUnadmittedMachineReachesNothing(t *testing.T) {
	l := newLayer(t, database(1, "web"), web(), other())
	_, pg := l.member("pg", 0, "leader")
	caller, _ := l.member("web", 0, "none")
	mesh := l.mesh("web", 1, 2)
	master := address(mesh, "pg-master")
	proxy := l.mesh("pg", 1, 0).Proxies[0]
	l.answers(caller, master, "pg-0")

	b := l.boot("web", 1)
	ports := []overlay.PortRef{{Protocol: overlay.TCP, Port: uint16(proxy.Port)}, {Protocol: overlay.TCP, Port: 5432}}
	m := l.start(b, func(cfg *machineConfig) {
		cfg.ServiceMesh = mesh
		cfg.Peers = append(cfg.Peers, overlay.Peer{ID: pg.id, BootID: overlay.BootID(pg.cert.Leaf), InstanceID: pg.instance, VIP: pg.vip, Offers: ports})
	})
	streams := func() (n int) {
		for _, c := range l.coordinators {
			n += c.Streams()
		}
		return n
	}
	eventually(t, "pg and web have their streams", func() error {
		if n := streams(); n != 2 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
	// The machine tried more than once, and every coordinator rejected it.
	m.said.await(t, 1, "no coordinator gives envoy its configuration")
	connected := func() error {
		text, err := m.admin(callerProxy, "/stats?filter=control_plane.connected_state|upstream_cx_total")
		if err == nil && !strings.Contains(text, "cadre-xds.upstream_cx_total") {
			err = fmt.Errorf("its figures are %q", text)
		}
		return err
	}
	eventually(t, "its envoy runs", connected)
	eventually(t, "its envoy asked twice", func() error {
		text, err := m.admin(callerProxy, "/stats?filter=cadre-xds.upstream_cx_total")
		_, figure, _ := strings.Cut(strings.TrimSpace(text), ": ")
		var n int
		if _, scanned := fmt.Sscan(figure, &n); err == nil && (scanned != nil || n < 2) {
			err = fmt.Errorf("its figures are %q", text)
		}
		return err
	})
	if n := streams(); n != 2 {
		t.Errorf("%d streams in addition to the unadmitted machine's: want 2", n)
	}
	certs, err := m.admin(callerProxy, "/certs")
	if err != nil || strings.Contains(certs, "spiffe") {
		t.Errorf("the envoy of an unadmitted machine has certificates: %s, %v", certs, err)
	}
	if s, err := m.proxy(callerProxy); err != nil || s.State == "live" {
		t.Errorf("its envoy is %+v, %v", s, err)
	}
	unreached(t, m, map[string]string{
		"its own route": master, "the port of pg's proxy": fmt.Sprintf("%s:%d", pg.vip, proxy.Port), "the port of pg's workload": pg.vip.String() + ":5432",
	})
	if status, body, err := m.consul(t.Context(), "/v1/status/leader"); err == nil && status < 500 {
		t.Errorf("Consul answers it: %d %s", status, body)
	}
	state, err := m.state()
	if err != nil || len(state.Sessions) == 0 {
		t.Fatalf("its overlay: %+v, %v", state, err)
	}
	for _, s := range state.Sessions {
		if s.State == overlay.SessionUp {
			t.Errorf("it has a Session with %s", s.Peer)
		}
	}

	l.admit(b)
	begin := time.Now()
	l.answers(m, master, "pg-0")
	t.Logf("first answer %v after its admission", time.Since(begin))
	if certs, err = m.admin(callerProxy, "/certs"); err != nil || !strings.Contains(certs, "/svc/web") {
		t.Errorf("its envoy's certificates: %s, %v", certs, err)
	}
}

// unreached fails the test when anything answers m at one of the addresses.
func unreached(t *testing.T, m *machine, at map[string]string) {
	t.Helper()
	// The overlay holds a connection back for ten seconds while there is no Session: the test
	// requires that no data ever arrives.
	var all sync.WaitGroup
	for what, address := range at {
		all.Go(func() {
			who, err := m.request(address)
			if err == nil {
				t.Errorf("%s at %s: %s answers", what, address, who)
			}
			t.Logf("%s at %s: %v", what, address, err)
		})
	}
	all.Wait()
}

// consul asks a machine's own Consul proxy.
func (m *machine) consul(ctx context.Context, path string) (status int, body string, err error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return m.dial(machineConsul.String())
	}}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://consul"+path, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// After the revocation of a backend and of a caller, their connections end within the promised
// time, and all others continue.
func TestARevokedInstanceIsCutOff(t *testing.T) {
	l := newLayer(t, database(2, "web"), web(), other())
	leader, pg0 := l.member("pg", 0, "leader")
	_, pg1 := l.member("pg", 1, "follower")
	good, _ := l.member("web", 0, "none")
	foe, web1 := l.member("web", 1, "none")
	mesh := l.mesh("web", 1, 2)
	proxy := l.mesh("pg", 1, 0).Proxies[0]
	master, replica := address(mesh, "pg-master"), address(mesh, "pg-replica")
	for _, m := range []*machine{good, foe} {
		l.answers(m, master, "pg-0")
		l.answers(m, replica, "pg-1")
	}
	leaf := l.leaf("web") // an old certificate does not help

	// A caller.
	stays, goes := stand(t, good, replica), stand(t, foe, replica)
	ended := goes.ended()
	begin := l.revoke(web1)
	over(t, begin, "web-1: its connection to pg-1", ended)
	l.gone(t, begin, "web-1", foe, callerProxy)
	var refused sync.WaitGroup
	refused.Go(func() {
		if who, err := present(foe, fmt.Sprintf("%s:%d", pg1.vip, proxy.Port), leaf); err == nil {
			t.Errorf("%s answers the revoked machine, with the certificate that it had", who)
		}
	})
	unreached(t, foe, map[string]string{"its route": replica})
	refused.Wait()
	stays.goesOn(t, "pg-1")

	// The leader of the backend.
	goes = stand(t, good, master)
	ended = goes.ended()
	begin = l.revoke(pg0)
	over(t, begin, "pg-0: web-0's connection to it", ended)
	l.gone(t, begin, "pg-0", leader, backendProxy)
	l.leads(good, "leader")
	t.Logf("pg-0: no route leads to it after %v", time.Since(begin))
	if who, err := good.request(master); err == nil {
		t.Errorf("%s answers at the route of a leader that is revoked", who)
	}
	stays.goesOn(t, "pg-1")
}

// revoke revokes a Boot as an operator does.
func (l *layer) revoke(b boot) time.Time {
	l.t.Helper()
	r := policy.Revocation{Kind: policy.RevokedInstance, ID: b.instance, Reason: "test", By: "test", At: time.Now()}
	l.put(store.RevocationKey(r.Name()), r)
	return time.Now()
}

// over waits for the end of open connections, within the promised time.
func over(t *testing.T, begin time.Time, what string, ended <-chan time.Time) {
	t.Helper()
	late := time.NewTimer(2 * limit)
	defer late.Stop()
	select {
	case at := <-ended:
		if took := at.Sub(begin); took > revokedWithin {
			t.Errorf("revoked %s ended after %v, want %v", what, took, revokedWithin)
		} else {
			t.Logf("revoked %s ended after %v", what, took)
		}
	case <-late.C:
		t.Fatalf("revoked %s is still open", what)
	}
}

// gone waits until nothing of a revoked machine is left: its node, its admission, its stream, its
// Sessions.
func (l *layer) gone(t *testing.T, begin time.Time, slot string, m *machine, proxy string) {
	t.Helper()
	for _, c := range []struct {
		what string
		is   func() error
	}{
		{"its Sessions", func() error {
			state, err := m.state()
			for _, s := range state.Sessions {
				if s.State == overlay.SessionUp {
					err = errors.Join(err, fmt.Errorf("one with %s", s.Peer))
				}
			}
			return err
		}},
		{"its stream of configuration", func() error {
			text, err := m.admin(proxy, "/stats?filter=control_plane.connected_state")
			if err == nil && !strings.Contains(text, "connected_state: 0") {
				err = fmt.Errorf("it says %q", text)
			}
			return err
		}},
		{"its admission", func() error {
			_, _, err := store.Read[policy.Admission](t.Context(), l.store, store.AdmissionKey(slot))
			switch {
			case errors.Is(err, store.ErrNotFound):
				return nil
			case err != nil:
				return err
			}
			return errors.New("it is on record")
		}},
		{"its node in the catalog", func() error {
			node, _, err := l.admin(0).Catalog().Node(slot, nil)
			if err == nil && node != nil {
				err = errors.New("it is there")
			}
			return err
		}},
	} {
		eventually(t, fmt.Sprintf("%s is revoked: %s ends", slot, c.what), c.is)
		took := time.Since(begin)
		if took > revokedWithin {
			t.Errorf("%s is revoked: %s is over after %v, want %v", slot, c.what, took, revokedWithin)
		}
		t.Logf("%s is revoked: %s is over after %v", slot, c.what, took)
	}
}

// openConn is a connection through Envoys that was answered on.
type openConn struct {
	conn net.Conn
}

// stand opens a connection that lasts until the test is over.
func stand(t *testing.T, m *machine, at string) *openConn {
	t.Helper()
	var s openConn
	eventually(t, "a connection of "+m.name, func() (err error) {
		if s.conn, err = m.dial(at); err == nil {
			if _, err = answer(s.conn); err != nil {
				_ = s.conn.Close()
			}
		}
		return err
	})
	t.Cleanup(func() { _ = s.conn.Close() })
	_ = s.conn.SetDeadline(time.Time{})
	return &s
}

// ended returns the time when the other side's end arrived.
func (s *openConn) ended() <-chan time.Time {
	out := make(chan time.Time, 1)
	go func() {
		_, _ = s.conn.Read(make([]byte, 1))
		out <- time.Now()
	}()
	return out
}

// goesOn has it answered on.
func (s *openConn) goesOn(t *testing.T, who string) {
	t.Helper()
	_ = s.conn.SetDeadline(time.Now().Add(limit))
	if got, err := answer(s.conn); err != nil || got != who {
		t.Errorf("a connection of others: %q, %v", got, err)
	}
}
