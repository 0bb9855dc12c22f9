package routes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/route"
)

// The mark of an entry that is ours.
const (
	markKey   = "managed-by"
	markValue = "cadre"
)

func mark() map[string]string { return map[string]string{markKey: markValue} }

func ours(e consul.ConfigEntry) bool { return e != nil && e.GetMeta()[markKey] == markValue }

// entries are config entries by kind and name.
type entries map[key]consul.ConfigEntry

type key struct{ kind, name string }

// wanted is what Consul is to have.
func wanted(c route.Config) entries {
	out := entries{}
	for _, s := range c.Services {
		subsets := map[string]consul.ServiceResolverSubset{}
		for name, filter := range s.Subsets {
			subsets[name] = consul.ServiceResolverSubset{Filter: filter, OnlyPassing: true}
		}
		out.add(&consul.ServiceResolverConfigEntry{Kind: consul.ServiceResolver, Name: s.Name, Subsets: subsets, Meta: mark()})
		if len(s.Callers) == 0 {
			continue // Consul knows no intentions without sources: what has none is refused to all
		}
		intentions := &consul.ServiceIntentionsConfigEntry{Kind: consul.ServiceIntentions, Name: s.Name, Meta: mark()}
		for _, caller := range s.Callers {
			intentions.Sources = append(intentions.Sources, &consul.SourceIntention{Name: caller, Action: consul.IntentionActionAllow})
		}
		out.add(intentions)
	}
	for _, r := range c.Routes {
		out.add(&consul.ServiceResolverConfigEntry{
			Kind: consul.ServiceResolver, Name: r.Route, Meta: mark(),
			Redirect: &consul.ServiceResolverRedirect{Service: r.Service, ServiceSubset: r.Subset},
		})
	}
	return out
}

func (e entries) add(one consul.ConfigEntry) { e[key{one.GetKind(), one.GetName()}] = one }

// change of one entry. delete has what is there taken away, else put is written.
type change struct {
	key
	put consul.ConfigEntry
	// index of what is there, 0: nothing.
	index uint64
}

// changes are the writes that bring found closer to want, in an order that Consul takes: it
// refuses a redirect to a subset that is not there, and to take away one that something
// redirects to. What leaves names stays although it is not wanted. more tells that others
// follow when these are made.
func changes(found, want entries, leaves func(name string) bool) (out []change, more bool) {
	at := map[key]int{}
	note := func(k key, put consul.ConfigEntry, phase int) {
		c := change{key: k, put: put}
		if is := found[k]; is != nil {
			c.index = is.GetModifyIndex()
		}
		at[k] = phase
		out = append(out, c)
	}
	for k, put := range want {
		widened, still := widen(put, found)
		more = more || still
		if !same(found[k], widened) {
			note(k, widened, order(k, put, false))
		}
	}
	for k, is := range found {
		if _, wanted := want[k]; !wanted && ours(is) && !leaves(k.name) {
			note(k, nil, order(k, is, true))
		}
	}
	slices.SortFunc(out, func(a, b change) int {
		return cmp.Or(cmp.Compare(at[a.key], at[b.key]), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	// A redirect that stays keeps its subset: where nothing is to be made, nothing follows.
	return out, more && len(out) > 0
}

// order of writes: who may not call any more is told first, and a service stands as long as
// anything leads there.
func order(k key, e consul.ConfigEntry, remove bool) int {
	resolver, is := e.(*consul.ServiceResolverConfigEntry)
	switch {
	case k.kind == consul.ServiceIntentions && remove:
		return 0
	case k.kind == consul.ServiceIntentions:
		return 1
	case is && resolver.Redirect == nil && !remove:
		return 2
	case !remove:
		return 3
	case is && resolver.Redirect != nil:
		return 4
	}
	return 5
}

// widen is put with the subsets that redirects still lead to, as they are now; still tells
// that there are any of ours, which will lead there no more. Others' may do so for ever.
func widen(put consul.ConfigEntry, found entries) (out consul.ConfigEntry, still bool) {
	resolver, is := put.(*consul.ServiceResolverConfigEntry)
	before, was := found[key{consul.ServiceResolver, put.GetName()}].(*consul.ServiceResolverConfigEntry)
	if !is || !was || resolver.Redirect != nil {
		return put, false
	}
	wide := *resolver
	wide.Subsets = maps.Clone(resolver.Subsets)
	for _, e := range found {
		from, is := e.(*consul.ServiceResolverConfigEntry)
		if !is || from.Redirect == nil || from.Redirect.Service != put.GetName() {
			continue
		}
		subset, exists := before.Subsets[from.Redirect.ServiceSubset]
		if _, stays := wide.Subsets[from.Redirect.ServiceSubset]; exists && !stays {
			wide.Subsets[from.Redirect.ServiceSubset], still = subset, still || ours(from)
		}
	}
	return &wide, still
}

// same tells that found says what want does, and nothing else.
func same(found, want consul.ConfigEntry) bool {
	return found != nil && plain(found) == plain(want)
}

// plain is an entry without what Consul adds to it by itself.
func plain(e consul.ConfigEntry) string {
	var out any = e
	switch e := e.(type) {
	case *consul.ServiceResolverConfigEntry:
		bare := *e
		bare.CreateIndex, bare.ModifyIndex, bare.Namespace, bare.Partition = 0, 0, "", ""
		out = bare
	case *consul.ServiceIntentionsConfigEntry:
		bare := *e
		bare.CreateIndex, bare.ModifyIndex, bare.Namespace, bare.Partition, bare.Sources = 0, 0, "", "", nil
		for _, s := range e.Sources {
			source := *s
			source.Precedence, source.Type, source.Namespace, source.Partition = 0, "", "", ""
			bare.Sources = append(bare.Sources, &source)
		}
		slices.SortFunc(bare.Sources, func(a, b *consul.SourceIntention) int { return cmp.Compare(a.Name, b.Name) })
		out = bare
	}
	text, _ := json.Marshal(out) // plain data: it always encodes
	return string(text)
}
