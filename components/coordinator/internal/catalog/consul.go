package catalog

import (
	"context"
	"errors"
	"fmt"
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

// errChanged means that the catalog, or the lease, is not what the step was decided by.
var errChanged = errors.New("the catalog changed meanwhile")

// CheckOf is the id of a group's check.
func CheckOf(group string) string { return group + ":ready" }

// find reads what the catalog has under the Slot's name. stale reads the local server,
// which may be behind by a moment and costs the others nothing.
func (w *Writer) find(ctx context.Context, group, slot string, stale bool) (Found, error) {
	query := (&consul.QueryOptions{AllowStale: stale}).WithContext(ctx)
	list, _, err := w.client.Catalog().NodeServiceList(slot, query)
	if err != nil {
		return Found{}, fmt.Errorf("read node %s: %w", slot, err)
	}
	if list == nil || list.Node == nil {
		return Found{}, nil
	}
	out := Found{Exists: true, Agent: list.Node.ID != "", NodeIndex: list.Node.ModifyIndex, NodeBoot: list.Node.Meta[MetaBoot]}
	out.Entry = Entry{Group: group, Slot: slot, Boot: out.NodeBoot, VIP: list.Node.Address}
	for _, service := range list.Services {
		if service.ID != group {
			out.Extra = true
			continue
		}
		out.ServiceIndex = service.ModifyIndex
		out.Why = service.Meta[metaWhy]
		out.Ready = out.Why == WhyHealthy
		// What cannot be read is older than any.
		out.Sequence, _ = strconv.ParseUint(service.Meta[MetaSequence], 10, 64)
		if len(service.Tags) > 0 {
			out.Role = service.Tags[0]
		}
		if service.Meta[MetaBoot] != out.Boot {
			out.Boot = "" // of no Boot: it is replaced
		}
	}
	return out, nil
}

// write carries a step out in one transaction, if fence holds in it.
func (w *Writer) write(ctx context.Context, fence *consul.KVTxnOp, step Step, found Found, e Entry) error {
	ops := consul.TxnOps{{KV: fence}}
	node := consul.Node{Node: e.Slot, Address: e.VIP, Meta: map[string]string{MetaBoot: e.Boot}}
	if step == Replace {
		ops = append(ops, &consul.TxnOp{Node: &consul.NodeTxnOp{Verb: consul.NodeDeleteCAS, Node: consul.Node{Node: e.Slot, ModifyIndex: found.NodeIndex}}})
		found = Found{}
	}
	if !found.Exists || found.VIP != e.VIP {
		verb := consul.NodeCAS
		if !found.Exists {
			// With index 0 it would fail on what was deleted in this transaction.
			verb = consul.NodeSet
		}
		node.ModifyIndex = found.NodeIndex
		ops = append(ops, &consul.TxnOp{Node: &consul.NodeTxnOp{Verb: verb, Node: node}})
	}
	service := consul.AgentService{
		ID: e.Group, Service: e.Group, Address: e.VIP, ModifyIndex: found.ServiceIndex,
		Meta: map[string]string{MetaBoot: e.Boot, MetaSequence: strconv.FormatUint(e.Sequence, 10), metaWhy: e.Why},
	}
	if e.Role != "" {
		service.Tags = []string{e.Role}
	}
	check := consul.HealthCheck{
		Node: e.Slot, CheckID: CheckOf(e.Group), Name: "ready", ServiceID: e.Group, ServiceName: e.Group,
		Status: consul.HealthCritical, Output: e.Why,
	}
	if e.Ready {
		check.Status = consul.HealthPassing
	}
	ops = append(ops,
		&consul.TxnOp{Service: &consul.ServiceTxnOp{Verb: consul.ServiceCAS, Node: e.Slot, Service: service}},
		&consul.TxnOp{Check: &consul.CheckTxnOp{Verb: consul.CheckSet, Check: check}})
	return w.commit(ctx, "write node "+e.Slot, ops)
}

// commit is errChanged when a check failed.
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

// held is the fence of a Boot that holds its Slot's lease now; ok is false when it does not.
func (w *Writer) held(ctx context.Context, slot, boot string) (fence *consul.KVTxnOp, ok bool, err error) {
	lease, entry, err := w.lease(ctx, slot)
	if err != nil || entry.Session == "" || lease.BootID != boot {
		return nil, false, err
	}
	return &consul.KVTxnOp{Verb: consul.KVCheckSession, Key: store.DefaultPrefix + entry.Key, Session: entry.Session}, true, nil
}

// lapsed is the fence of a Boot whose lease nobody holds; ok is false when somebody does.
func (w *Writer) lapsed(ctx context.Context, slot string) (fence *consul.KVTxnOp, ok bool, err error) {
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
