package consulproxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/group"
)

// The Consul proxy refuses catalog writes of a member, regardless of the rights of its token. The
// test tries every call that could change the catalog, the configuration of the service layer or
// its CA. One row uses a member's own rights, and another row uses a management token.
func TestTheConsulProxyRefusesCatalogWrites(t *testing.T) {
	w := newWorld(t, 2)
	m := w.members[0]
	own, victim := group.SlotName(groupName, 0), group.SlotName(groupName, 1)
	before := w.written(t)
	txn := func(op string) string {
		return fmt.Sprintf(`[{"KV":{"Verb":"set","Key":"%stxn","Value":"eA=="}},%s]`, prefix, op)
	}
	service := fmt.Sprintf(`"Service":{"ID":%q,"Service":%q,"Port":1}`, groupName, groupName)
	for _, row := range []struct{ name, method, path, body, says string }{
		{"register the own node", "PUT", "/v1/catalog/register", `{"Node":"` + own + `","Address":"127.0.0.1",` + service + `}`, ""},
		{"register another's", "PUT", "/v1/catalog/register", `{"Node":"` + victim + `","Address":"127.0.0.1",` + service + `}`, ""},
		{"deregister the own node", "PUT", "/v1/catalog/deregister", `{"Node":"` + own + `"}`, ""},
		{"deregister another's service", "PUT", "/v1/catalog/deregister", `{"Node":"` + victim + `","ServiceID":"` + groupName + `"}`, ""},
		{"register at the agent", "PUT", "/v1/agent/service/register", `{"Name":"` + groupName + `","Port":1}`, ""},
		{"deregister at the agent", "PUT", "/v1/agent/service/deregister/" + groupName, "", ""},
		{"maintenance of a service", "PUT", "/v1/agent/service/maintenance/" + groupName + "?enable=true", "", ""},
		{"maintenance of the node", "PUT", "/v1/agent/maintenance?enable=true", "", ""},
		{"a check at the agent", "PUT", "/v1/agent/check/register", `{"Name":"x","TTL":"1m"}`, ""},
		{"a check passes", "PUT", "/v1/agent/check/pass/" + groupName + ":ready", "", ""},
		{"a check is updated", "PUT", "/v1/agent/check/update/" + groupName + ":ready", `{"Status":"critical"}`, ""},
		{"a transaction sets a service", "PUT", "/v1/txn", txn(`{"Service":{"Verb":"set","Node":"` + own + `",` + service + `}}`), "may only use KV"},
		{"a transaction deletes a service", "PUT", "/v1/txn", txn(`{"Service":{"Verb":"delete","Node":"` + victim + `",` + service + `}}`), "may only use KV"},
		{"a transaction sets a node", "PUT", "/v1/txn", txn(`{"Node":{"Verb":"set","Node":{"Node":"` + own + `","Address":"127.0.0.1"}}}`), "may only use KV"},
		{"a transaction deletes a node", "PUT", "/v1/txn", txn(`{"Node":{"Verb":"delete","Node":{"Node":"` + victim + `"}}}`), "may only use KV"},
		{"a transaction sets a check", "PUT", "/v1/txn", txn(`{"Check":{"Verb":"set","Check":{"Node":"` + victim + `","CheckID":"` + groupName + `:ready","Status":"critical"}}}`), "may only use KV"},
		{"a transaction deletes a check", "PUT", "/v1/txn", txn(`{"Check":{"Verb":"delete","Check":{"Node":"` + victim + `","CheckID":"` + groupName + `:ready"}}}`), "may only use KV"},
		{"a transaction of services in small letters", "PUT", "/v1/txn", txn(`{"service":{"verb":"set","node":"` + own + `",` + service + `}}`), ""},
		{"a config entry", "PUT", "/v1/config", `{"Kind":"service-resolver","Name":"` + groupName + `"}`, ""},
		{"a config entry by check-and-set", "PUT", "/v1/config?cas=0", `{"Kind":"service-defaults","Name":"` + groupName + `","Protocol":"http"}`, ""},
		{"a config entry goes", "DELETE", "/v1/config/service-resolver/" + groupName, "", ""},
		{"intentions as a config entry", "PUT", "/v1/config", `{"Kind":"service-intentions","Name":"` + groupName + `","Sources":[{"Name":"*","Action":"allow"}]}`, ""},
		{"an intention, by names", "PUT", "/v1/connect/intentions/exact?source=*&destination=" + groupName, `{"Action":"allow"}`, ""},
		{"an intention", "POST", "/v1/connect/intentions", `{"SourceName":"*","DestinationName":"` + groupName + `","Action":"allow"}`, ""},
		{"an intention goes", "DELETE", "/v1/connect/intentions/exact?source=*&destination=" + groupName, "", ""},
		{"the CA's configuration", "PUT", "/v1/connect/ca/configuration", `{"Provider":"consul","Config":{"LeafCertTTL":"1h"}}`, ""},
		{"the CA's configuration is read", "GET", "/v1/connect/ca/configuration", "", ""},
		{"a certificate of the mesh", "GET", "/v1/agent/connect/ca/leaf/" + groupName, "", ""},
		{"a prepared query", "POST", "/v1/query", `{"Name":"x","Service":{"Service":"` + groupName + `"}}`, ""},
		{"a coordinate", "PUT", "/v1/coordinate/update", `{"Node":"` + own + `"}`, ""},
		{"a peering", "POST", "/v1/peering/token", `{"PeerName":"x"}`, ""},
		{"a token", "PUT", "/v1/acl/token", `{}`, ""},
		{"force-leave", "PUT", "/v1/agent/force-leave/" + victim, "", ""},
	} {
		for whose, token := range map[string]string{"member": m.token, "management": w.consul.ManagementToken} {
			status, body := m.write(t, row.method, row.path, row.body, token)
			switch {
			case status != http.StatusForbidden:
				t.Errorf("%s, with the %s token: %d %s", row.name, whose, status, body)
			case whose == "member" && !strings.HasPrefix(body, "CONSUL_PROXY_FORBIDDEN: "), !strings.HasPrefix(body, "CONSUL_PROXY_"):
				t.Errorf("%s, with the %s token: the refusal does not name its sender: %s", row.name, whose, body)
			case whose == "member" && !strings.Contains(body, row.says):
				t.Errorf("%s: the answer has no %q: %s", row.name, row.says, body)
			}
		}
	}
	if after := w.written(t); after != before {
		t.Errorf("something was written:\n%s\nand before\n%s", after, before)
	}
	// The same path accepts a member's permitted writes.
	if status, body := m.write(t, http.MethodPut, "/v1/txn", fmt.Sprintf(`[{"KV":{"Verb":"set","Key":"%stxn","Value":"eA=="}}]`, prefix), m.token); status != http.StatusOK {
		t.Errorf("a transaction of its own: %d %s", status, body)
	}
}

// write sends a request to the member's Consul proxy.
func (m *member) write(t *testing.T, method, path, body, token string) (int, string) {
	t.Helper()
	var text io.Reader
	if body != "" {
		text = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.addr+path, text)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", token)
	res, err := m.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// written is all that the rows could have changed.
func (w *world) written(t *testing.T) string {
	t.Helper()
	client := w.admin(0)
	all := map[string]any{}
	query := &consul.QueryOptions{RequireConsistent: true}
	keep := func(name string, value any, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = value
	}
	for n := range w.members {
		node, _, err := client.Catalog().NodeServiceList(group.SlotName(groupName, n), query)
		keep(fmt.Sprint("node ", n), node, err)
		checks, _, err := client.Health().Node(group.SlotName(groupName, n), query)
		keep(fmt.Sprint("checks ", n), checks, err)
	}
	services, _, err := client.Catalog().Services(query)
	keep("services", services, err)
	for _, kind := range []string{consul.ServiceResolver, consul.ServiceDefaults, consul.ServiceIntentions} {
		entries, _, err := client.ConfigEntries().List(kind, query)
		keep(kind, entries, err)
	}
	ca, _, err := client.Connect().CAGetConfig(query)
	keep("ca", ca, err)
	pair, _, err := client.KV().Get(prefix+"txn", query)
	keep("key", pair, err)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
