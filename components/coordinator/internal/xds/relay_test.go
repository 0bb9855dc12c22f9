package xds_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/xds"
	"cadre.dev/core/group"
)

// TestDOR08_AProxyGetsItsOwn: a proxy receives its own configuration, and each change in the
// catalog without another request.
func TestDOR08_AProxyGetsItsOwn(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	w.member("db", "db-0", "127.50.2.1")
	m := w.member("web", "web-0", "127.50.1.1")
	e := m.open(m.own())
	e.until(t, "local_app")
	e.until(t, "public_listener")
	w.proxy("web", "web-0", "127.50.1.1", "db")
	e.until(t, "db.default.dc1")
	if n := w.relay.Streams(); n != 1 {
		t.Errorf("%d streams, want one", n)
	}
	if came := m.received(); !strings.Contains(came, "BEGIN CERTIFICATE") {
		t.Error("no certificate came")
	}
	if err := e.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := e.ended(); err == nil {
		t.Error("it goes on after the proxy has ended it")
	}
}

func (m *member) received() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.came.String()
}

// TestThreat_DOR08_AMemberIsNoOthersProxy: every way to claim another identity fails. The member
// receives the reason, and the log has it once.
func TestThreat_DOR08_AMemberIsNoOthersProxy(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	w.member("db", "db-0", "127.50.2.1")
	w.member("web", "web-1", "127.50.1.2")
	m := w.member("web", "web-0", "127.50.1.1")
	own := m.own()
	var asking sync.WaitGroup
	for name, c := range map[string]struct {
		message []byte
		code    codes.Code
		text    string
	}{
		"the node of a sibling":    {identity{own.id, own.cluster, "web-1"}.message(), codes.PermissionDenied, "web-1"},
		"another group's node":     {identity{"db-sidecar-proxy", "db", "db-0"}.message(), codes.PermissionDenied, "db-0"},
		"another group's proxy":    {identity{"db-sidecar-proxy", "db", "web-0"}.message(), codes.PermissionDenied, "web-0 may be web-sidecar-proxy"},
		"another service":          {identity{own.id, "db", "web-0"}.message(), codes.PermissionDenied, "want web"},
		"no node name":             {within(1, text(1, own.id), text(2, own.cluster)), codes.PermissionDenied, "node_name"},
		"no node":                  {text(2, typeCluster), codes.InvalidArgument, "no node"},
		"nothing":                  {nil, codes.InvalidArgument, "no node"},
		"two nodes":                {slices.Concat(own.message(), identity{"db-sidecar-proxy", "db", "db-0"}.message()), codes.InvalidArgument, "DeltaDiscoveryRequest"},
		"no message":               {[]byte("x"), codes.InvalidArgument, "DeltaDiscoveryRequest"},
		"more than a message":      {make([]byte, 600<<10), codes.ResourceExhausted, "the most"},
		"a gateway's node":         {identity{own.id, own.cluster, "coordinator-0"}.message(), codes.PermissionDenied, "coordinator-0"},
		"itself, by another Case":  {identity{own.id, own.cluster, "Web-0"}.message(), codes.PermissionDenied, "Web-0"},
		"itself, with more behind": {identity{own.id + "\x00", own.cluster, "web-0"}.message(), codes.PermissionDenied, "may be"},
	} {
		asking.Go(func() { // each is kept waiting
			e, err := m.begin(method)
			if err != nil {
				t.Error(err)
				return
			}
			e.send(c.message)
			_, err = e.receive()
			if got := status.Convert(err); err == nil || got.Code() != c.code || !strings.Contains(got.Message(), c.text) {
				t.Errorf("%s: %v, want %v: %s", name, err, c.code, c.text)
			}
		})
	}
	asking.Wait()
	if came := m.received(); strings.Contains(came, "local_app") || strings.Contains(came, "CERTIFICATE") {
		t.Error("another proxy's configuration came")
	}
	if len(w.accessors()) != 0 {
		t.Error("a token was issued for a refused caller")
	}
	w.stop()
	for _, want := range []string{"slot=web-0", "code=PermissionDenied", `node.metadata.node_name is \"web-1\"`} {
		if !strings.Contains(w.logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, w.logged)
		}
	}
}

// TestThreat_DOR08_NothingElseIsServed: the port of Consul behind it has more than xDS.
func TestThreat_DOR08_NothingElseIsServed(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	m := w.member("web", "web-0", "127.50.1.1")
	var asking sync.WaitGroup
	for _, other := range []string{
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
		"/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
		"/hashicorp.consul.dataplane.DataplaneService/GetEnvoyBootstrapParams",
		"/hashicorp.consul.connectca.ConnectCAService/WatchRoots",
		"/hashicorp.consul.connectca.ConnectCAService/Sign",
		"/hashicorp.consul.acl.ACLService/Login",
		"/hashicorp.consul.resource.ResourceService/Write",
		"/hashicorp.consul.serverdiscovery.ServerDiscoveryService/WatchServers",
		"/hashicorp.consul.internal.peerstream.PeerStreamService/StreamResources",
		"/grpc.health.v1.Health/Check",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		method + "/", "/" + method, method + "?x=y", strings.ToLower(method), "/",
	} {
		asking.Go(func() { // each is kept waiting
			e, err := m.begin(other)
			if err != nil {
				t.Error(err)
				return
			}
			e.send(m.own().message())
			_, err = e.receive()
			if got := status.Convert(err); got.Code() != codes.Unimplemented || !strings.Contains(got.Message(), "is not served here") {
				t.Errorf("%s: %v", other, err)
			}
		})
	}
	asking.Wait()
}

// TestThreat_DOR08_ABootThatLostItsSlotLosesItsStreams: a removed proxy and an ended Session lose their
// streams, too.
func TestThreat_DOR08_ABootThatLostItsSlotLosesItsStreams(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	evicted, unrouted, cut := w.member("web", "web-0", "127.50.1.1"), w.member("db", "db-0", "127.50.2.1"), w.member("api", "api-0", "127.50.3.1")
	var streams []*envoy
	for _, m := range []*member{evicted, unrouted, cut} {
		e := m.open(m.own())
		e.until(t, "local_app")
		streams = append(streams, e)
	}
	w.relay.Recheck()
	w.change(func() { w.gone["boot-web-0"] = true })
	if err := streams[0].ended(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "not web-0 now") {
		t.Errorf("evicted: %v", err)
	}
	w.change(func() { w.proxies["db"] = nil })
	if err := streams[1].ended(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "no route") {
		t.Errorf("without a route: %v", err)
	}
	cut.leave()
	if err := streams[2].ended(); status.Code(err) != codes.Unavailable {
		t.Errorf("without a session: %v", err)
	}
	for _, m := range []*member{evicted, unrouted} {
		if err := m.open(m.own()).ended(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s comes back: %v", m.caller.Slot, err)
		}
	}
}

// TestThreat_DOR09_TheTokenStaysAtTheCoordinator: the token is for the caller's group alone, no
// byte of it reaches a member, a member's own token is not used, and the token is revoked at the
// end.
func TestThreat_DOR09_TheTokenStaysAtTheCoordinator(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	members := []*member{w.member("web", "web-0", "127.50.1.1"), w.member("web", "web-1", "127.50.1.2"), w.member("db", "db-0", "127.50.2.1")}
	for _, m := range members {
		m.open(m.own()).until(t, "public_listener")
	}
	made := w.accessors()
	if len(made) != 2 {
		t.Errorf("%d tokens for two groups", len(made))
	}
	for _, accessor := range made {
		token, _, err := w.admin.ACL().TokenRead(accessor, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(token.ServiceIdentities) != 1 || len(token.Policies) != 0 || !strings.Contains(token.Description, "group "+token.ServiceIdentities[0].ServiceName) {
			t.Errorf("token %q has %+v", token.Description, token)
		}
		for _, m := range members {
			if came := m.received(); strings.Contains(came, token.SecretID) || strings.Contains(came, w.server.ManagementToken) {
				t.Errorf("%s got a token", m.caller.Slot)
			}
		}
		if strings.Contains(w.logged.String(), token.SecretID) {
			t.Error("a token is in the log")
		}
	}
	w.stop()
	if left := w.accessors(); len(left) != 0 {
		t.Errorf("%d tokens are left", len(left))
	}
}

// TestDOR09_ATokenThatEndsEndsTheStream: the next stream has another token.
func TestDOR09_ATokenThatEndsEndsTheStream(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	m := w.member("web", "web-0", "127.50.1.1")
	e := m.open(m.own())
	e.until(t, "public_listener")
	first := w.accessors()
	if err := w.issuer.Revoke(context.WithoutCancel(t.Context()), first...); err != nil {
		t.Fatal(err)
	}
	// Consul checks the token at each message, and otherwise every few minutes.
	e.send(text(2, typeCluster))
	if err := e.ended(); status.Code(err) != codes.Unavailable {
		t.Errorf("it ended with %v", err)
	}
	m.open(m.own()).until(t, "public_listener")
	if second := w.accessors(); len(second) != 1 || slices.Equal(first, second) {
		t.Errorf("tokens %v, before %v", second, first)
	}
}

// TestThreat_DOR09_NoMemberHasTheRightOfAProxy: suppose that a member's token reaches Consul past
// the Consul proxy. It gets no certificate of its service, and cannot deregister the service.
func TestThreat_DOR09_NoMemberHasTheRightOfAProxy(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	w.member("web", "web-0", "127.50.1.1")
	own, err := w.issuer.Slot(t.Context(), tokens.Holder{Spec: group.Spec{Name: "web", Workload: group.Workload{Kind: group.WorkloadPatroni}}, Slot: "web-0", BootID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := consul.NewClient(&consul.Config{Address: w.server.Addr, Token: own.Secret})
	if err != nil {
		t.Fatal(err)
	}
	_, _, leaf := client.Agent().ConnectCALeaf("web", nil)
	_, off := client.Catalog().Deregister(&consul.CatalogDeregistration{Node: "web-0", ServiceID: "web-sidecar-proxy"}, nil)
	for what, err := range map[string]error{"its service's certificate": leaf, "its service off its node": off} {
		if status, is := errors.AsType[consul.StatusError](err); !is || status.Code != http.StatusForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDOR08_ALaterIdentityInAStreamChangesNothing(t *testing.T) {
	w := newWorld(t, xds.Limits{})
	w.member("db", "db-0", "127.50.2.1")
	m := w.member("web", "web-0", "127.50.1.1")
	e := m.open(m.own())
	e.until(t, "public_listener")
	e.send(append(identity{"db-sidecar-proxy", "db", "db-0"}.message(), text(2, typeCluster)...))
	w.proxy("web", "web-0", "127.50.1.1", "db")
	e.until(t, "db.default.dc1")
}
