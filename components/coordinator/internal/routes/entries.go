package routes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/route"
)

// The mark of Cadre's own entries.
const (
	markKey   = "managed-by"
	markValue = "cadre"
)

func mark() map[string]string { return map[string]string{markKey: markValue} }

func ours(e consul.ConfigEntry) bool { return e != nil && e.GetMeta()[markKey] == markValue }

// entries are config entries by kind and name.
type entries map[key]consul.ConfigEntry

type key struct{ kind, name string }

// wanted returns the desired entries of Consul.
func wanted(c route.Config) entries {
	out := entries{}
	for _, s := range c.Services {
		subsets := map[string]consul.ServiceResolverSubset{}
		for name, filter := range s.Subsets {
			subsets[name] = consul.ServiceResolverSubset{Filter: filter, OnlyPassing: true}
		}
		out.add(&consul.ServiceResolverConfigEntry{Kind: consul.ServiceResolver, Name: s.Name, Subsets: subsets, Meta: mark()})
		if len(s.Callers) == 0 {
			continue // Consul has no intentions without sources: a service without sources denies all callers
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

// change of one entry. A nil put deletes the entry.
type change struct {
	key
	put consul.ConfigEntry
	// index of the existing entry, 0: none.
	index uint64
}

// changes are the writes that bring found closer to want, in an order that Consul accepts. Consul
// rejects a redirect to a missing subset, and the removal of a subset in use. An unwanted entry
// stays if leaves names it. more reports that further changes follow after these.
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
	// A remaining redirect keeps its subset: without a change now, nothing follows.
	return out, more && len(out) > 0
}

// order of writes: permissions are removed first, and a service stays as long as a redirect leads
// to it.
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

// widen returns put with the subsets that redirects still use, as they are now. still reports that
// some of these redirects are ours and will be removed. Foreign redirects may stay permanently.
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

// same reports whether found equals want.
func same(found, want consul.ConfigEntry) bool {
	return found != nil && plain(found) == plain(want)
}

// plain is the text of an entry without the fields that Consul adds.
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
	text, _ := json.Marshal(out) // plain data always encodes
	return string(text)
}
