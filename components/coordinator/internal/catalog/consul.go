package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/store"
)

// Meta of a node and of the group's service on it.
const (
	MetaBoot     = "cadre-boot"
	MetaSequence = "cadre-sequence"
	metaWhy      = "cadre-why"
)

// errChanged means that the catalog or the lease changed after the step was decided.
var errChanged = errors.New("the catalog changed meanwhile")

// CheckOf returns the id of a group's check.
func CheckOf(group string) string { return group + ":ready" }

// maxOps is Consul's limit of operations in one transaction.
const maxOps = 128

// find reads the catalog's node with the Slot's name. A stale read asks the local server only: its
// data may be slightly old, and the read puts no load on the other servers.
func (w *Writer) find(ctx context.Context, group, slot string, stale bool) (Found, error) {
	query := (&consul.QueryOptions{AllowStale: stale}).WithContext(ctx)
	list, _, err := w.client.Catalog().NodeServiceList(slot, query)
	if err != nil {
		return Found{}, fmt.Errorf("read node %s: %w", slot, err)
	}
	if list == nil || list.Node == nil {
		return Found{}, nil
	}
	out := Found{Exists: true, Agent: list.Node.ID != "", NodeIndex: list.Node.ModifyIndex, NodeBoot: list.Node.Meta[MetaBoot], Indices: map[string]uint64{}, Boots: map[string]string{}}
	out.Entry = Entry{Group: group, Slot: slot, Boot: out.NodeBoot, VIP: list.Node.Address}
	for _, service := range list.Services {
		if service.ID != group {
			out.take(service)
			continue
		}
		out.ServiceIndex, out.Port = service.ModifyIndex, service.Port
		out.Why = service.Meta[metaWhy]
		out.Ready = out.Why == WhyHealthy
		// An unreadable sequence is 0, older than every report.
		out.Sequence, _ = strconv.ParseUint(service.Meta[MetaSequence], 10, 64)
		if len(service.Tags) > 0 {
			out.Role = service.Tags[0]
		}
		if service.Meta[MetaBoot] != out.Boot {
			out.Boot = "" // of no Boot: Decide replaces the node
		}
	}
	slices.SortFunc(out.Services, func(a, b Service) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// take records a service other than the group's own.
func (f *Found) take(is *consul.AgentService) {
	boot, ours := is.Meta[MetaBoot]
	if !ours || is.Service != is.ID {
		f.Foreign = true
		return
	}
	out := Service{ID: is.ID, Address: is.Address, Port: is.Port, Why: is.Meta[metaWhy]}
	out.Ready = out.Why == WhyHealthy
	if len(is.Tags) > 0 {
		out.Tags = is.Tags
	}
	if is.Kind == consul.ServiceKindConnectProxy && is.Proxy != nil {
		out.Destination, out.LocalAddress, out.LocalPort = is.Proxy.DestinationServiceName, is.Proxy.LocalServiceAddress, is.Proxy.LocalServicePort
		for _, u := range is.Proxy.Upstreams {
			out.Upstreams = append(out.Upstreams, Upstream{Route: u.DestinationName, Address: u.LocalBindAddress, Port: u.LocalBindPort})
		}
	}
	if boot != f.NodeBoot {
		out.Address = "" // written for another Boot: it must be written again
	}
	f.Indices[out.ID], f.Boots[out.ID] = is.ModifyIndex, boot
	f.Services = append(f.Services, out)
}

// write carries a plan out in one transaction that also checks fence. whole is false when the plan
// did not fit into one transaction. The group's own service is in every transaction, so that its
// check-and-set keeps an older report from overwriting a newer one.
func (w *Writer) write(ctx context.Context, fence *consul.KVTxnOp, plan Plan, found Found, e Entry) (whole bool, err error) {
	ops := consul.TxnOps{{KV: fence}}
	if plan.Step == Replace {
		ops = append(ops, &consul.TxnOp{Node: &consul.NodeTxnOp{Verb: consul.NodeDeleteCAS, Node: consul.Node{Node: e.Slot, ModifyIndex: found.NodeIndex}}})
		found = Found{}
	}
	if !found.Exists || found.VIP != e.VIP {
		verb := consul.NodeCAS
		if !found.Exists {
			// A check-and-set with index 0 would fail on a node that this transaction deletes.
			verb = consul.NodeSet
		}
		node := consul.Node{Node: e.Slot, Address: e.VIP, Meta: map[string]string{MetaBoot: e.Boot}, ModifyIndex: found.NodeIndex}
		ops = append(ops, &consul.TxnOp{Node: &consul.NodeTxnOp{Verb: verb, Node: node}})
	}
	own := Service{ID: e.Group, Address: e.VIP, Port: e.Port, Ready: e.Ready, Why: e.Why}
	if e.Role != "" {
		own.Tags = []string{e.Role}
	}
	service := registered(own, e.Boot)
	service.Meta[MetaSequence] = strconv.FormatUint(e.Sequence, 10)
	ops = append(ops, put(e.Slot, service, found.ServiceIndex), check(e.Slot, own))
	whole = true
	for _, s := range plan.Put {
		if whole = len(ops)+2 <= maxOps; !whole {
			break
		}
		ops = append(ops, put(e.Slot, registered(s, e.Boot), found.Indices[s.ID]), check(e.Slot, s))
	}
	for _, id := range plan.Drop {
		if whole = whole && len(ops) < maxOps; !whole {
			break
		}
		ops = append(ops, drop(e.Slot, id, found.Indices[id]))
	}
	return whole, w.commit(ctx, "write node "+e.Slot, ops)
}

func put(slot string, service consul.AgentService, index uint64) *consul.TxnOp {
	service.ModifyIndex = index
	return &consul.TxnOp{Service: &consul.ServiceTxnOp{Verb: consul.ServiceCAS, Node: slot, Service: service}}
}

func drop(slot, id string, index uint64) *consul.TxnOp {
	gone := consul.AgentService{ID: id, Service: id, ModifyIndex: index}
	return &consul.TxnOp{Service: &consul.ServiceTxnOp{Verb: consul.ServiceDeleteCAS, Node: slot, Service: gone}}
}

func check(slot string, s Service) *consul.TxnOp {
	check := consul.HealthCheck{
		Node: slot, CheckID: CheckOf(s.ID), Name: "ready", ServiceID: s.ID, ServiceName: s.ID, Status: consul.HealthCritical, Output: s.Why,
	}
	if s.Ready {
		check.Status = consul.HealthPassing
	}
	return &consul.TxnOp{Check: &consul.CheckTxnOp{Verb: consul.CheckSet, Check: check}}
}

// registered returns the service in the form of Consul's API.
func registered(s Service, boot string) consul.AgentService {
	out := consul.AgentService{ID: s.ID, Service: s.ID, Address: s.Address, Port: s.Port, Tags: s.Tags, Meta: map[string]string{MetaBoot: boot}}
	if !s.Calls() {
		out.Meta[metaWhy] = s.Why
	}
	if s.Destination == "" {
		return out
	}
	out.Kind = consul.ServiceKindConnectProxy
	out.Proxy = &consul.AgentServiceConnectProxyConfig{
		DestinationServiceName: s.Destination, DestinationServiceID: s.Destination, LocalServiceAddress: s.LocalAddress, LocalServicePort: s.LocalPort,
	}
	for _, u := range s.Upstreams {
		out.Proxy.Upstreams = append(out.Proxy.Upstreams, consul.Upstream{DestinationName: u.Route, LocalBindAddress: u.Address, LocalBindPort: u.Port})
	}
	return out
}

// registerCallers writes the proxies that carry calls. Consul's transactions drop upstreams, so
// each proxy is a registration of its own, without a fence. Afterwards verify checks that the node
// still belongs to the Boot, and removes the proxies if it does not. A node always gets its Boot in
// a transaction that checks the Boot's lease.
func (w *Writer) registerCallers(ctx context.Context, e Entry, callers []Service) error {
	if len(callers) == 0 {
		return nil
	}
	var errs []error
	for _, s := range callers {
		service := registered(s, e.Boot)
		_, err := w.client.Catalog().Register(&consul.CatalogRegistration{
			Node: e.Slot, Address: e.VIP, SkipNodeUpdate: true, Service: &service,
		}, (&consul.WriteOptions{}).WithContext(ctx))
		if err != nil {
			errs = append(errs, fmt.Errorf("write service %s of node %s: %w", s.ID, e.Slot, err))
		}
	}
	// A registration without an answer may have been written too.
	return errors.Join(append(errs, w.verify(ctx, e))...)
}

func (w *Writer) removeFound(ctx context.Context, slot string, found Found) error {
	return w.commit(ctx, "remove node "+slot, consul.TxnOps{{Node: &consul.NodeTxnOp{
		Verb: consul.NodeDeleteCAS, Node: consul.Node{Node: slot, ModifyIndex: found.NodeIndex},
	}}})
}

// commit returns errChanged when a check of the transaction failed.
func (w *Writer) commit(ctx context.Context, what string, ops consul.TxnOps) error {
	ok, answer, _, err := w.client.Txn().Txn(ops, (&consul.QueryOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case ok:
		return nil
	}
	var why []string
	for _, e := range answer.Errors {
		why = append(why, e.What)
	}
	return fmt.Errorf("%s: %w: %s", what, errChanged, strings.Join(why, "; "))
}

// leaseFence returns a fence on the lease that the Boot holds now; ok is false when the Boot does not
// hold it.
func (w *Writer) leaseFence(ctx context.Context, slot, boot string) (fence *consul.KVTxnOp, ok bool, err error) {
	lease, entry, err := w.lease(ctx, slot)
	if err != nil || entry.Session == "" || lease.BootID != boot {
		return nil, false, err
	}
	return &consul.KVTxnOp{Verb: consul.KVCheckSession, Key: store.DefaultPrefix + entry.Key, Session: entry.Session}, true, nil
}

// lapsedFence returns a fence on a Slot's free lease; ok is false when a Boot holds the lease.
func (w *Writer) lapsedFence(ctx context.Context, slot string) (fence *consul.KVTxnOp, ok bool, err error) {
	_, entry, err := w.lease(ctx, slot)
	if err != nil || entry.Session != "" || entry.Index == 0 {
		return nil, false, err
	}
	return &consul.KVTxnOp{Verb: consul.KVCheckIndex, Key: store.DefaultPrefix + entry.Key, Index: entry.Index}, true, nil
}

func (w *Writer) lease(ctx context.Context, slot string) (store.BootLease, store.Entry, error) {
	entry, err := w.cfg.Store.Get(ctx, store.BootLeaseKey(slot))
	if errors.Is(err, store.ErrNotFound) {
		return store.BootLease{}, store.Entry{}, nil
	}
	if err != nil {
		return store.BootLease{}, entry, err
	}
	return decodeLease(entry), entry, nil
}
