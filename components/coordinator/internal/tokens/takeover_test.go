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

// stage is a cluster of two members with real client agents, each with the real tokens
// of a Boot, and everything in it that a session keeps: the leader's lock, a Boot's
// lease and the lock of the victim's workload.
type stage struct {
	*world
	server storetest.ConsulServer
	store  *store.Consul
	// tokens of the attacker, pg-1; agent is where its own client agent answers.
	agent, workload tokens.Token
	client          *storetest.ConsulClient
	consul          *consul.Client // with the management token
	lease           store.Lease
	// sessions by what they keep.
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

	victimAgent, victimWorkload := w.slot(group.WorkloadPatroni, "pg", "pg-0")
	victim := s.server.StartClient(t, "pg-0", group.NodeID("demo", "pg-0"), victimAgent.Secret)
	s.agent, s.workload = w.slot(group.WorkloadPatroni, "pg", "pg-1")
	s.client = s.server.StartClient(t, "pg-1", group.NodeID("demo", "pg-1"), s.agent.Secret)
	// As Patroni asks for it: of the local agent, with the node's health.
	s.sessions["the lock of another member"] = s.workloadSession(victim, victimWorkload)
	s.sessions["the attacker's own"] = s.workloadSession(s.client, s.workload)
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

// workloadSession makes a member's session through its own client agent, which takes
// until the agent has joined and Consul's leader has registered its node.
func (s *stage) workloadSession(c *storetest.ConsulClient, token tokens.Token) string {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		id, _, err := s.as(c.Addr, token.Secret).Session().Create(&consul.SessionEntry{TTL: "60s", Behavior: consul.SessionBehaviorDelete}, nil)
		if err == nil {
			return id
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("a member cannot make a session of its own node: %v\n%s", err, c.Log())
		}
		<-time.After(100 * time.Millisecond)
	}
}

func (s *stage) holder(key string) string {
	s.t.Helper()
	entry, err := s.store.Get(s.t.Context(), key)
	if err != nil || entry.Session == "" {
		s.t.Fatalf("%s is held by %q, %v", key, entry.Session, err)
	}
	return entry.Session
}

// ended tells which of the sessions are not there any more.
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

// nodes are the names in the catalog with their IDs.
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

// TestThreat_IDN09_CTL05_NoMemberEndsTheSessionsOfOthers tries, with each token of a
// member, at the servers and by way of its own client agent, everything that ends a
// node or a session in Consul: to take the ID or the name of another node, to remove
// one, to end a session by its id. Neither the leader's lock nor a Boot's lease nor
// another member's session ends.
func TestThreat_IDN09_CTL05_NoMemberEndsTheSessionsOfOthers(t *testing.T) {
	s := newStage(t)
	before := s.nodes()
	if len(before) != 4 || before[s.store.LeaseNode()] != "" || before["pg-0"] != group.NodeID("demo", "pg-0") {
		t.Fatalf("nodes %v, want the server, two members by their IDs, and that of the sessions without one", before)
	}
	tried := 0
	for _, token := range []tokens.Token{s.agent, s.workload} {
		for _, address := range []string{s.addr, s.client.Addr} {
			c := s.as(address, token.Secret)
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
		}
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

// attacks on the node name with that ID, by the member pg-1.
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
		{"registration", func() error { return register(name, group.NodeID("demo", "pg-1")) }},
		{"registration in a transaction", func() error {
			return txn(consul.NodeSet, consul.Node{Node: name, ID: group.NodeID("demo", "pg-1"), Address: newAddress()})
		}},
		{"critical health", func() error {
			if id == "" {
				return register(name, "") // what has no health cannot lose it: Consul says so, and not that it is denied
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

// TestThreat_IDN09_CTL05_GossipIsSeenAndEndsNoSessionOfCadres: a member joins gossip once
// more, under a new name and with another member's ID, which takes no right in Consul's
// ACL: Consul renames the other one's node and ends its sessions, until members have no
// gossip key (docs/limits.md). The leader's lock and the leases of Boots are on a node
// that this does not reach, and the two names with one ID are seen.
func TestThreat_IDN09_CTL05_GossipIsSeenAndEndsNoSessionOfCadres(t *testing.T) {
	s := newStage(t)
	poser := s.server.StartClient(t, "pg-9", group.NodeID("demo", "pg-0"), s.agent.Secret)
	deadline := time.Now().Add(time.Minute)
	for {
		nodes, err := s.issuer.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if id := []string{group.NodeID("demo", "pg-0")}; slices.Equal(nodes["pg-9"].IDs, id) && slices.Equal(nodes["pg-0"].IDs, id) {
			if nodes["pg-9"].Address != "127.0.0.1" || len(nodes[s.store.LeaseNode()].IDs) != 0 {
				t.Errorf("nodes %+v", nodes)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("two names with one ID are not seen: %+v\n%s", nodes, poser.Log())
		}
		<-time.After(50 * time.Millisecond)
	}
	for _, what := range s.ended() {
		if what == "the leader's lock" || what == "a Boot's lease" {
			t.Errorf("%s ended", what)
		}
	}
}
