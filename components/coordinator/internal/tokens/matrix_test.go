package tokens_test

import (
	"fmt"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
)

// operation is an action that a role might try.
type operation struct {
	name string
	try  func(c *consul.Client) error
	may  string // roles with the right, separated by blanks
}

// matrix tries every operation on a role's own names, on sibling names and on foreign ones.
func matrix(w *world) []operation {
	kv := func(key, may string) []operation {
		return []operation{
			{"write " + key, func(c *consul.Client) error { _, err := c.KV().Put(&consul.KVPair{Key: key}, nil); return err }, may},
			{"delete " + key, func(c *consul.Client) error { _, err := c.KV().Delete(key, nil); return err }, may},
			{"transaction " + key, func(c *consul.Client) error {
				ok, answer, _, err := c.Txn().Txn(consul.TxnOps{{KV: &consul.KVTxnOp{Verb: consul.KVSet, Key: key}}}, nil)
				if err == nil && !ok {
					err = fmt.Errorf("%v", answer.Errors[0].What)
				}
				return err
			}, may},
		}
	}
	var all []operation
	all = append(all, kv("service/pg/leader", "workload")...)
	for _, key := range []string{"service/pg", "service/pg2/leader", "service/pg-old/leader", "service/web/leader", "service/", "x", "cadre/v1/admissions/pg-0", "cadre/v1/lease/term", "cadre/v1/policy/slots/pg-0", "cadre/v1/groups/pg/status"} {
		all = append(all, kv(key, "")...)
	}
	all = append(all, kv("cadre/v1/groups/pg/spec", "operator")...)
	all = append(all, kv("cadre/v1/control/freeze/_all", "operator")...)
	for key, may := range map[string]string{"cadre/v1/admissions/pg-0": "operator", "service/web/leader": "", "service/pg/leader": "workload"} {
		all = append(all, operation{"read " + key, func(c *consul.Client) error { _, _, err := c.KV().Get(key, nil); return err }, may})
	}
	for _, prefix := range []string{"", "service/", "cadre/"} {
		all = append(all, operation{"delete all below " + prefix, func(c *consul.Client) error { _, err := c.KV().DeleteTree(prefix, nil); return err }, ""})
	}
	admin := w.as(w.management)
	for _, node := range []string{"pg-1", "pg-10", "pg-0", "pg", "coordinator-0", "test"} {
		own := node == "pg-1"
		all = append(all, catalog(w, admin, node)...)
		all = append(all, sessions(w, node, own)...)
	}
	for name, try := range map[string]func(c *consul.Client) error{
		"list tokens":   func(c *consul.Client) error { _, _, err := c.ACL().TokenList(nil); return err },
		"make a token":  func(c *consul.Client) error { _, _, err := c.ACL().TokenCreate(&consul.ACLToken{}, nil); return err },
		"list policies": func(c *consul.Client) error { _, _, err := c.ACL().PolicyList(nil); return err },
		"make a policy": func(c *consul.Client) error {
			_, _, err := c.ACL().PolicyCreate(&consul.ACLPolicy{Name: "p"}, nil)
			return err
		},
		"take snapshot": func(c *consul.Client) error { r, _, err := c.Snapshot().Save(nil); closeAll(r); return err },
		"list keyring":  func(c *consul.Client) error { _, err := c.Operator().KeyringList(nil); return err },
		"set a key":     func(c *consul.Client) error { return c.Operator().KeyringInstall("x", nil) },
		"drop a voter":  func(c *consul.Client) error { return c.Operator().RaftRemovePeerByID("x", nil) },
		"set autopilot": func(c *consul.Client) error {
			return c.Operator().AutopilotSetConfiguration(&consul.AutopilotConfiguration{}, nil)
		},
		"fire an event": func(c *consul.Client) error {
			_, _, err := c.Event().Fire(&consul.UserEvent{Name: "e"}, nil)
			return err
		},
		"make a query": func(c *consul.Client) error {
			_, _, err := c.PreparedQuery().Create(&consul.PreparedQueryDefinition{Name: "q", Service: consul.ServiceQuery{Service: "s"}}, nil)
			return err
		},
		"set an intent": func(c *consul.Client) error {
			_, err := c.Connect().IntentionUpsert(&consul.Intention{SourceName: "a", DestinationName: "b", Action: "allow"}, nil)
			return err
		},
		"force a leave": func(c *consul.Client) error { return c.Agent().ForceLeave("pg-0") },
		"leave":         func(c *consul.Client) error { return c.Agent().Leave() },
		"reload":        func(c *consul.Client) error { return c.Agent().Reload() },
		"set its token": func(c *consul.Client) error { _, err := c.Agent().UpdateAgentACLToken("x", nil); return err },
		"maintenance":   func(c *consul.Client) error { return c.Agent().EnableNodeMaintenance("x") },
		"config entries": func(c *consul.Client) error {
			_, _, err := c.ConfigEntries().Set(&consul.ProxyConfigEntry{Kind: consul.ProxyDefaults, Name: "global"}, nil)
			return err
		},
		"lead a route elsewhere": func(c *consul.Client) error {
			_, _, err := c.ConfigEntries().Set(&consul.ServiceResolverConfigEntry{Kind: consul.ServiceResolver, Name: "pg-master", Redirect: &consul.ServiceResolverRedirect{Service: "pg"}}, nil)
			return err
		},
		"allow itself a call": func(c *consul.Client) error {
			_, _, err := c.ConfigEntries().Set(&consul.ServiceIntentionsConfigEntry{Kind: consul.ServiceIntentions, Name: "pg-pg", Sources: []*consul.SourceIntention{{Name: "pg", Action: consul.IntentionActionAllow}}}, nil)
			return err
		},
		"end a route": func(c *consul.Client) error {
			_, err := c.ConfigEntries().Delete(consul.ServiceResolver, "pg-master", nil)
			return err
		},
	} {
		all = append(all, operation{name, try, ""})
	}
	return all
}

func closeAll(r interface{ Close() error }) {
	if r != nil {
		_ = r.Close()
	}
}

var addresses int

// newAddress returns an unused address: repeating a registration changes nothing, and Consul
// permits it to every caller.
func newAddress() string {
	addresses++
	return fmt.Sprintf("127.51.%d.%d", addresses>>8, addresses&255)
}

// catalog: no token registers nodes or services, not even its own (IDN-09).
func catalog(w *world, admin *consul.Client, node string) []operation {
	out := []operation{
		{"register node " + node, func(c *consul.Client) error {
			_, err := c.Catalog().Register(&consul.CatalogRegistration{Node: node, Address: newAddress()}, nil)
			return err
		}, ""},
		{"register node in a transaction " + node, func(c *consul.Client) error {
			ok, answer, _, err := c.Txn().Txn(consul.TxnOps{{Node: &consul.NodeTxnOp{Verb: consul.NodeSet, Node: consul.Node{Node: node, Address: newAddress()}}}}, nil)
			if err == nil && !ok {
				err = fmt.Errorf("%v", answer.Errors[0].What)
			}
			return err
		}, ""},
	}
	for _, service := range []string{"pg", "pg2", "web", "pg-pg", "pg-pg-sidecar-proxy", "pg-sidecar-proxy"} {
		may := ""
		if service == "pg" || service == "pg-sidecar-proxy" {
			may = "xds"
		}
		out = append(out,
			operation{"register the proxy of " + service + " on " + node, func(c *consul.Client) error {
				_, err := c.Catalog().Register(&consul.CatalogRegistration{Node: node, Address: "127.50.1.9", SkipNodeUpdate: true, Service: &consul.AgentService{
					Kind: consul.ServiceKindConnectProxy, ID: service + "-x", Service: service, Port: 20000,
					Proxy: &consul.AgentServiceConnectProxyConfig{DestinationServiceName: service, DestinationServiceID: service},
				}}, nil)
				return err
			}, may},
			operation{"deregister " + service + " of " + node, func(c *consul.Client) error {
				// Consul's own agent removes unknown registrations after a while.
				w.service(admin, node, service)
				_, err := c.Catalog().Deregister(&consul.CatalogDeregistration{Node: node, ServiceID: service}, nil)
				return err
			}, may},
			operation{"register service " + service + " on " + node, func(c *consul.Client) error {
				_, err := c.Catalog().Register(&consul.CatalogRegistration{Node: node, Address: "127.50.1.9", SkipNodeUpdate: true,
					Service: &consul.AgentService{ID: service, Service: service}}, nil)
				return err
			}, may},
			operation{"register service in a transaction " + service + " on " + node, func(c *consul.Client) error {
				ok, answer, _, err := c.Txn().Txn(consul.TxnOps{{Service: &consul.ServiceTxnOp{Verb: consul.ServiceSet, Node: node,
					Service: consul.AgentService{ID: service, Service: service}}}}, nil)
				if err == nil && !ok {
					err = fmt.Errorf("%v", answer.Errors[0].What)
				}
				return err
			}, may})
	}
	return out
}

// sessions: only on the own node, to create and to destroy.
func sessions(w *world, node string, own bool) []operation {
	mine := ""
	if own {
		mine = "workload"
	}
	theirs := w.session(node)
	return []operation{
		{"make a session of " + node, func(c *consul.Client) error {
			_, _, err := c.Session().CreateNoChecks(&consul.SessionEntry{Node: node}, nil)
			return err
		}, mine},
		{"destroy a session of " + node, func(c *consul.Client) error { _, err := c.Session().Destroy(theirs, nil); return err }, mine},
		{"renew a session of " + node, func(c *consul.Client) error {
			_, _, err := c.Session().Renew(w.session(node), nil)
			return err
		}, mine},
	}
}

// service registers a service, so that a removal has a target.
func (w *world) service(admin *consul.Client, node, id string) {
	w.t.Helper()
	if _, err := admin.Catalog().Register(&consul.CatalogRegistration{
		Node: node, Address: "127.50.1.7", Service: &consul.AgentService{ID: id, Service: id, Port: 1},
	}, nil); err != nil {
		w.t.Fatal(err)
	}
}

// session creates a session for a node, with a token that may.
func (w *world) session(node string) string {
	w.t.Helper()
	client := w.as(management)
	if _, err := client.Catalog().Register(&consul.CatalogRegistration{Node: node, Address: "127.50.1.7", SkipNodeUpdate: true}, nil); err != nil {
		w.t.Fatal(err)
	}
	id, _, err := client.Session().CreateNoChecks(&consul.SessionEntry{Node: node, TTL: "60s"}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func TestTOK05_IDN09_Matrix(t *testing.T) {
	w := newWorld(t)
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := w.issuer.EnsureOperator(t.Context(), operator, []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	workload := w.slot(group.WorkloadPatroni, "pg", "pg-1")
	none := w.slot(group.WorkloadNone, "web", "web-0")
	// The spec's request is within the rights of the kind; another kind may have it, too.
	asks, err := w.issuer.Slot(t.Context(), tokens.Holder{Slot: "pg-1", BootID: "b008", Spec: group.Spec{
		Name: "pg", ConsulPermissions: group.ConsulPermissions{KeyPrefixes: []string{"service/pg/"}, SessionWrite: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	coordinator, err := w.issuer.Coordinator(t.Context(), "coordinator-1", "b007", true)
	if err != nil {
		t.Fatal(err)
	}
	// No member ever has this token: with it pg can be registered and deregistered on every node.
	streams, err := w.issuer.XDS(t.Context(), tokens.Streams{Group: "pg", Services: []string{"pg"}, Coordinator: "coordinator-1", BootID: "b007"})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, role := range []struct{ name, token string }{
		{"workload", workload.Secret}, {"workload", asks.Secret}, {"idle", none.Secret}, {"operator", operator},
		{"coordinator", coordinator.Secret}, {"xds", streams.Secret}, {"anonymous", ""}, {"stranger", "11111111-2222-3333-4444-555555555555"},
	} {
		client := w.as(role.token)
		for _, op := range matrix(w) {
			tried++
			err := op.try(client)
			may := strings.Contains(" "+op.may+" ", " "+role.name+" ")
			if (err == nil) != may {
				t.Errorf("%s: %s: error %v, want allowed %v", role.name, op.name, err, may)
			}
			if err != nil && !may && !denied(err) {
				t.Errorf("%s: %s: %v is no denial", role.name, op.name, err)
			}
		}
	}
	t.Logf("%d operations tried", tried)
}

// denied reports whether Consul refused because of missing rights.
func denied(err error) bool {
	text := err.Error()
	return strings.Contains(text, "403") || strings.Contains(text, "Permission denied") || strings.Contains(text, "ACL not found")
}
