package deployment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Clone returns a copy of d under another name, whose groups share nothing with the original:
//
//	groups              <to>-<short>, where short is the group's name without the original's name before it
//	routes              <to>-<short>, with the original's name as alias for the callers of the clone
//	services            by the group's new name; a parent becomes <to>-<parent>
//	allow, with, after  name the groups of the clone; other groups are left out
//	keys                service/<new group>/
//	app, pins           none: the clone gets an app of its own, and its revisions are new
//
// and changes its fields as the settings say (Set); the error has all wrong settings. So each CVM, disk, secret and address of the clone is its own. Compose texts, env and
// meta stay as they are.
func Clone(d Document, to string, settings ...string) (Document, error) {
	c := cloner{from: d.Name, to: to, groups: map[string]string{}, routes: map[string]string{}}
	var short []string
	taken := map[string]string{}
	for _, spec := range d.Groups {
		if other, is := taken[c.name(spec.Name)]; is {
			return Document{}, fmt.Errorf("groups %s and %s of deployment %s: both would be %s in the clone: export the document, rename one of them there, and apply it under the new name", other, spec.Name, d.Name, c.name(spec.Name))
		}
		taken[c.name(spec.Name)] = spec.Name
		c.groups[spec.Name] = c.name(spec.Name)
		short = append(short, strings.TrimPrefix(spec.Name, c.from+"-"))
		for _, r := range spec.Routes {
			c.routes[r.Name] = c.name(r.Name)
		}
	}
	out := Document{Name: to, Labels: maps.Clone(d.Labels)}
	for _, spec := range d.Groups {
		out.Groups = append(out.Groups, c.spec(spec))
	}
	var problems []error
	for _, one := range settings {
		next, err := Set(out, short, one)
		if err != nil {
			problems = append(problems, fmt.Errorf("--set %w", err))
			continue
		}
		out = next
	}
	if len(problems) > 0 {
		return Document{}, errors.Join(problems...)
	}
	return out, nil
}

type cloner struct {
	from, to       string
	groups, routes map[string]string
}

func (c cloner) name(of string) string { return c.to + "-" + strings.TrimPrefix(of, c.from+"-") }

func (c cloner) spec(s group.Spec) group.Spec {
	before := s.Name
	s.Name, s.AppID = c.groups[before], ""
	s.Without = each(s.Without, func(slot string) (string, bool) {
		_, ordinal, err := group.ParseSlot(slot)
		return group.SlotName(s.Name, ordinal), err == nil
	})
	s.Placement.With, s.Placement.NotWith = each(s.Placement.With, c.own), each(s.Placement.NotWith, c.own)
	s.After = each(s.After, c.own)
	s.Backends = slices.Clone(s.Backends)
	for i, b := range s.Backends {
		s.Backends[i].Allow = each(b.Allow, c.own)
		if parent := b.Registration.Parent; parent != "" {
			s.Backends[i].Registration.Parent = c.name(parent)
		}
	}
	s.Routes = slices.Clone(s.Routes)
	for i, r := range s.Routes {
		s.Routes[i].Name = c.routes[r.Name]
		if r.Alias == "" {
			s.Routes[i].Alias = r.Name
		}
	}
	s.Secrets = slices.Clone(s.Secrets)
	for i, one := range s.Secrets {
		s.Secrets[i].PoolerRoutes = each(one.PoolerRoutes, func(name string) (string, bool) {
			own, is := c.routes[name]
			return own, is
		})
	}
	s.ConsulPermissions.KeyPrefixes = each(s.ConsulPermissions.KeyPrefixes, func(prefix string) (string, bool) {
		return group.KeyScope(s.Name) + strings.TrimPrefix(prefix, group.KeyScope(before)), true
	})
	s.Instances = slices.Clone(s.Instances)
	for i := range s.Instances {
		s.Instances[i].PinnedRevision = ""
	}
	return s
}

// own is the clone's name of a group of the original; ok is false for any other group.
func (c cloner) own(name string) (own string, ok bool) {
	own, ok = c.groups[name]
	return own, ok
}

// each replaces the entries of a list, and leaves those out for which as returns false.
func each(list []string, as func(string) (string, bool)) []string {
	var out []string
	for _, one := range list {
		if next, ok := as(one); ok {
			out = append(out, next)
		}
	}
	return out
}
