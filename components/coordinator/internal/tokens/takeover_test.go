package tokens_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// nodeID is a possible ID of a Consul agent.
const nodeID = "11111111-2222-8333-8444-555555555555"

// stage is a cluster with two members in the catalog, as coordinators register them. It has
// everything that a session keeps: the leader's lock, a Boot's lease and the lock of the victim's
// workload.
type stage struct {
	*world
	server   storetest.ConsulServer
	store    *store.Consul
	workload tokens.Token   // of the attacker, pg-1
	consul   *consul.Client // with the management token
	lease    store.Lease
	// sessions by their purpose.
	sessions map[string]string
}

func newStage(t *testing.T) *stage {
	w := newWorld(t)
	s := &stage{world: w, server: w.server, sessions: map[string]string{}}
	s.consul = s.as(w.addr, w.management)
	var err error
	if s.store, err = store.NewConsul(store.ConsulConfig{Address: w.addr, Token: w.management}); err != nil {
		t.Fatal(err)
	}
	if s.lease, err = s.store.Acquire(t.Context(), "coordinator-0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.lease.Release(t.Context()) })
	s.sessions["the leader's lock"] = s.holder(store.LeaseKey)

	session, err := s.store.CreateSession(t.Context(), "cadre boot of pg-0", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Commit(t.Context(), store.Op{Kind: store.OpLock, Key: store.BootLeaseKey("pg-0"), Value: []byte("{}"), Session: session}); err != nil {
		t.Fatal(err)
	}
	s.sessions["a Boot's lease"] = session

	victim := w.slot(group.WorkloadPatroni, "pg", "pg-0")
	s.workload = w.slot(group.WorkloadPatroni, "pg", "pg-1")
	s.sessions["the lock of another member"] = s.workloadSession("pg-0", victim)
	s.sessions["the attacker's own"] = s.workloadSession("pg-1", s.workload)
	return s
}

func (s *stage) as(address, token string) *consul.Client {
	s.t.Helper()
	c, err := consul.NewClient(&consul.Config{Address: address, Token: token})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// workloadSession creates a member's session like the Consul proxy: on its node, which has no ID.
func (s *stage) workloadSession(node string, token tokens.Token) string {
	s.t.Helper()
	if _, err := s.consul.Catalog().Register(&consul.CatalogRegistration{Node: node, Address: "127.50.1.1",
		Service: &consul.AgentService{ID: "pg", Service: "pg"}}, nil); err != nil {
		s.t.Fatal(err)
	}
	id, _, err := s.as(s.addr, token.Secret).Session().CreateNoChecks(&consul.SessionEntry{Node: node, TTL: "60s", Behavior: consul.SessionBehaviorDelete}, nil)
	if err != nil {
		s.t.Fatalf("a member cannot make a session of its own node: %v", err)
	}
	return id
}

func (s *stage) holder(key string) string {
	s.t.Helper()
	entry, err := s.store.Get(s.t.Context(), key)
	if err != nil || entry.Session == "" {
		s.t.Fatalf("%s is held by %q, %v", key, entry.Session, err)
	}
	return entry.Session
}

// ended returns the sessions that are gone.
func (s *stage) ended() (gone []string) {
	s.t.Helper()
	for what, id := range s.sessions {
		entry, _, err := s.consul.Session().Info(id, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if entry == nil {
			gone = append(gone, what)
		}
	}
	slices.Sort(gone)
	return gone
}

// nodes returns the names in the catalog with their IDs.
func (s *stage) nodes() map[string]string {
	s.t.Helper()
	list, _, err := s.consul.Catalog().Nodes(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, n := range list {
		out[n.Node] = n.ID
	}
	return out
}

// TestThreat_IDN09_CTL05_NoMemberEndsTheSessionsOfOthers: a member's token, at a server without a
// Consul proxy, tries everything that ends a node or a session in Consul. It takes the ID or the
// name of another node, removes a node, and ends a session by its id. The leader's lock, a Boot's
// lease and another member's session survive.
func TestThreat_IDN09_CTL05_NoMemberEndsTheSessionsOfOthers(t *testing.T) {
	s := newStage(t)
	before := s.nodes()
	if len(before) != 4 || before[s.store.LeaseNode()] != "" || before["pg-0"] != "" || before["pg-1"] != "" {
		t.Fatalf("nodes %v, want the server, two members and that of the sessions, these three without an ID", before)
	}
	tried := 0
	c := s.as(s.addr, s.workload.Secret)
	for name, id := range before {
		for _, attack := range s.attacks(c, name, id) {
			tried++
			if err := attack.try(); err == nil {
				t.Errorf("%s of %s: not refused", attack.name, name)
			} else if !denied(err) {
				t.Errorf("%s of %s: %v is no denial", attack.name, name, err)
			}
			if gone := s.ended(); len(gone) > 0 {
				t.Fatalf("%s of %s ended %q", attack.name, name, gone)
			}
		}
	}
	for what, id := range s.sessions {
		if what == "the attacker's own" {
			continue
		}
		tried++
		if _, err := c.Session().Destroy(id, nil); err == nil || !denied(err) {
			t.Errorf("destroying the session of %s: %v", what, err)
		}
	}
	seen, _, err := c.Catalog().Nodes(nil)
	if err != nil || slices.ContainsFunc(seen, func(n *consul.Node) bool { return n.Node == s.store.LeaseNode() }) {
		t.Errorf("a member sees the nodes %+v, %v", seen, err)
	}
	if gone := s.ended(); len(gone) > 0 || s.lease.Context().Err() != nil {
		t.Errorf("ended: %q; leader %v", gone, s.lease.Context().Err())
	}
	if after := s.nodes(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("nodes %v, were %v", after, before)
	}
	t.Logf("%d attacks tried", tried)
}

type attack struct {
	name string
	try  func() error
}

// attacks returns the attacks on the node name with that ID, by the member pg-1.
func (s *stage) attacks(c *consul.Client, name, id string) []attack {
	register := func(node, id string) error {
		_, err := c.Catalog().Register(&consul.CatalogRegistration{Node: node, ID: id, Address: newAddress()}, nil)
		return err
	}
	txn := func(verb consul.NodeOp, node consul.Node) error {
		ok, answer, _, err := c.Txn().Txn(consul.TxnOps{{Node: &consul.NodeTxnOp{Verb: verb, Node: node}}}, nil)
		if err == nil && !ok {
			err = fmt.Errorf("%s", answer.Errors[0].What)
		}
		return err
	}
	out := []attack{
		{"rename over the ID", func() error { return register("pg-1", id) }},
		{"rename over the ID in a transaction", func() error { return txn(consul.NodeSet, consul.Node{Node: "pg-1", ID: id, Address: newAddress()}) }},
		{"new name over the ID", func() error { return register("pg-1x", id) }},
		{"departure and rename over the ID", func() error {
			_, left := c.Catalog().Deregister(&consul.CatalogDeregistration{Node: "pg-1"}, nil)
			if err := register("pg-1", id); err == nil || left != nil {
				return cmp.Or(left, err)
			}
			return nil
		}},
		{"registration", func() error { return register(name, nodeID) }},
		{"registration in a transaction", func() error {
			return txn(consul.NodeSet, consul.Node{Node: name, ID: nodeID, Address: newAddress()})
		}},
		{"critical health", func() error {
			if id == "" {
				return register(name, "") // Consul answers that a node without health checks cannot fail one; it does not answer denied
			}
			_, err := c.Catalog().Register(&consul.CatalogRegistration{Node: name, SkipNodeUpdate: true,
				Check: &consul.AgentCheck{Node: name, CheckID: "serfHealth", Name: "x", Status: consul.HealthCritical}}, nil)
			return err
		}},
		{"deregistration", func() error {
			_, err := c.Catalog().Deregister(&consul.CatalogDeregistration{Node: name}, nil)
			return err
		}},
		{"end of its health", func() error {
			if id == "" {
				return register(name, "")
			}
			_, err := c.Catalog().Deregister(&consul.CatalogDeregistration{Node: name, CheckID: "serfHealth"}, nil)
			return err
		}},
		{"deletion in a transaction", func() error { return txn(consul.NodeDelete, consul.Node{Node: name, ID: id}) }},
		{"forced leave", func() error { return c.Agent().ForceLeave(name) }},
	}
	if name != "pg-1" {
		out = append(out, attack{"session", func() error {
			_, _, err := c.Session().CreateNoChecks(&consul.SessionEntry{Node: name}, nil)
			return err
		}})
	}
	return out
}

// TestThreat_IDN09_CTL05_GossipIsSeenAndEndsNoSession: an attacker with the gossip key joins under
// a new name and with any ID. Consul renames a node by its ID, and ends the sessions on it. The
// nodes of members and of Cadre's sessions have no ID. The audit reports the name.
func TestThreat_IDN09_CTL05_GossipIsSeenAndEndsNoSession(t *testing.T) {
	s := newStage(t)
	poser := s.server.StartClient(t, "pg-9", nodeID, s.workload.Secret)
	deadline := time.Now().Add(time.Minute)
	for {
		nodes, err := s.issuer.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if at := nodes["pg-9"]; at.Alive && at.Listed && slices.Equal(at.IDs, []string{nodeID}) {
			if at.Address != "127.0.0.1" || len(nodes["pg-0"].IDs)+len(nodes[s.store.LeaseNode()].IDs) != 0 {
				t.Errorf("nodes %+v", nodes)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("who joined is not seen: %+v\n%s", nodes, poser.Log())
		}
		<-time.After(50 * time.Millisecond)
	}
	if gone := s.ended(); len(gone) > 0 {
		t.Errorf("ended: %q", gone)
	}
}
