package genesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/cli/upgrade"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/platform"
)

// answerLimit bounds the answers of one coordinator in one observation.
const answerLimit = 10 * time.Second

// observer reads the state of all coordinators, from the platform and from themselves.
type observer struct {
	o  Options
	c  client.Context
	co groupfile.Coordinator
	// hash is the wanted compose hash.
	hash string
	// given are the Slots that got the env values of the file in this run.
	given map[string]bool
	// changes are the accepted changes whose Boots have not been seen, by Slot.
	changes map[string]change
}

// change is an accepted change of a CVM.
type change struct {
	at time.Time
	// boot answered before it; "": none did.
	boot string
}

// seen is one observation.
type seen struct {
	facts upgrade.Facts
	// cvms and boots are by Slot.
	cvms  map[string]platform.Instance
	boots map[string]string
}

func (v *observer) wanted() upgrade.Content {
	return upgrade.Content{ComposeHash: v.hash, OSImage: v.co.OSImage, InstanceType: v.co.InstanceType, DiskGB: v.co.DiskGB}
}

// oldEnv reports that a coordinator is to get its env values again, and did not get them yet.
func (v *observer) oldEnv(slot string) bool { return v.o.Env && !v.given[slot] }

// cvms lists the coordinators' CVMs by Slot.
func (v *observer) cvms(ctx context.Context) (map[string]platform.Instance, error) {
	list, err := v.o.Cloud.List(ctx, v.c.CoordinatorAppID)
	if err != nil && !errors.Is(err, platform.ErrNotFound) {
		return nil, err
	}
	out := map[string]platform.Instance{}
	for _, i := range list {
		slot, ok := strings.CutPrefix(strings.ToLower(i.Name), strings.ToLower(v.c.Cluster)+"-")
		if !ok {
			return nil, fmt.Errorf("CVM %s is in the coordinators' app %s and is none of them", i.Name, v.c.CoordinatorAppID)
		}
		if _, twice := out[slot]; twice {
			return nil, fmt.Errorf("two CVMs are called %s: delete the one without the cluster's disk", i.Name)
		}
		if !v.names(slot) {
			return nil, fmt.Errorf("CVM %s is in the coordinators' app, and the cluster file has %d replicas: an upgrade changes no number of coordinators", i.Name, v.co.Replicas)
		}
		out[slot] = i
	}
	return out, nil
}

func (v *observer) names(slot string) bool {
	for n := range v.co.Replicas {
		if Slot(n) == slot {
			return true
		}
	}
	return false
}

// observe asks the platform, and all running coordinators at the same time.
func (v *observer) observe(ctx context.Context) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*answerLimit)
	defer cancel()
	s := seen{facts: upgrade.Facts{Wanted: v.wanted()}, boots: map[string]string{}}
	var err error
	if s.cvms, err = v.cvms(ctx); err != nil {
		return s, fmt.Errorf("list the coordinators: %w", err)
	}
	answers := make([]client.CoordinatorFacts, v.co.Replicas)
	s.facts.Coordinators = make([]upgrade.Coordinator, v.co.Replicas)
	var asking sync.WaitGroup
	for n := range v.co.Replicas {
		asking.Go(func() { s.facts.Coordinators[n], answers[n] = v.one(ctx, n, s.cvms) })
	}
	asking.Wait()
	v.join(&s, answers)
	return s, nil
}

// one observes a coordinator.
func (v *observer) one(ctx context.Context, n int, cvms map[string]platform.Instance) (upgrade.Coordinator, client.CoordinatorFacts) {
	out := upgrade.Coordinator{Slot: Slot(n)}
	i, ok := cvms[out.Slot]
	if !ok {
		return out, client.CoordinatorFacts{}
	}
	out.Exists, out.Status, out.Running, out.StaysDown, out.BootError = true, i.Status, i.Running(), i.StaysDown(), i.BootError
	out.Is = upgrade.Content{ComposeHash: i.ComposeHash, OSImage: i.OSImage, InstanceType: i.InstanceType, DiskGB: i.DiskGB, OldEnv: v.oldEnv(out.Slot)}
	if !out.Running || i.InstanceID == "" {
		out.Problem = "its CVM does not run"
		return out, client.CoordinatorFacts{}
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	proven, err := v.o.reach().Prove(ctx, v.c, i.InstanceID)
	var facts client.CoordinatorFacts
	if err == nil {
		facts, err = v.o.reach().Facts(ctx, v.c, i.InstanceID)
	}
	if err == nil && facts.Slot != out.Slot {
		err = fmt.Errorf("%s answers in its place", facts.Slot)
	}
	if err != nil {
		out.Problem, _, _ = strings.Cut(err.Error(), "\n")
		return out, client.CoordinatorFacts{}
	}
	if out.Is.ComposeHash == "" {
		out.Is.ComposeHash = proven // the platform does not show it
	}
	out.Answers, out.Proven, out.Version, out.Halted, out.Sessions, out.Connected = true, proven, facts.Version, facts.Halted, facts.Sessions, facts.Connected
	if out.Older = facts.Older; facts.Older {
		facts.BootID = "of compose hash " + proven // another boot follows from another hash
	}
	return out, facts
}

// consulServers are the servers of Consul by the newest answer that shows them; not known: all answers
// are of older coordinators, or there is none.
func consulServers(answers []client.CoordinatorFacts) (servers []client.ConsulServer, known bool) {
	var newest client.CoordinatorFacts
	for _, a := range answers {
		if a.Slot != "" && !a.Older && (!known || a.Term > newest.Term) {
			newest, known = a, true
		}
	}
	return newest.Servers, known
}

// join adds the facts about the cluster: the leader of the newest term, and the servers of Consul.
func (v *observer) join(s *seen, answers []client.CoordinatorFacts) {
	var newest client.CoordinatorFacts
	for _, a := range answers {
		if a.Slot != "" && (newest.Slot == "" || a.Term > newest.Term) {
			newest = a
		}
		s.boots[a.Slot] = a.BootID
	}
	f := &s.facts
	f.Leader = newest.Leader
	servers, known := consulServers(answers)
	for i := range f.Coordinators {
		c := &f.Coordinators[i]
		if agrees := c.Answers && newest.Leader != "" && answers[i].Leader == newest.Leader && answers[i].Term == newest.Term; !known && agrees {
			c.Voter, c.Healthy = true, true
		}
	}
	for _, server := range servers {
		at := slices.IndexFunc(f.Coordinators, func(c upgrade.Coordinator) bool { return c.Slot == server.Node })
		if at < 0 {
			f.OtherServers = append(f.OtherServers, server.Node)
			continue
		}
		f.Coordinators[at].Voter, f.Coordinators[at].Healthy = server.Voter, server.Healthy
		if server.Leader {
			f.RaftLeader = server.Node
		}
	}
	for i := range f.Coordinators {
		c := &f.Coordinators[i]
		made, ok := v.changes[c.Slot]
		settled := time.Since(made.at) > v.o.Cloud.Habits().Settle
		switch {
		case !ok:
		case c.Answers && s.boots[c.Slot] != made.boot,
			// The call had no effect.
			settled && c.Running && len(c.Is.Changes(f.Wanted)) > 0:
			delete(v.changes, c.Slot)
		default:
			c.Changing = true
		}
	}
}
