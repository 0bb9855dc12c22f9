package command

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

const (
	// askTime bounds the questions to all coordinators: a hanging coordinator must leave time for the records.
	askTime = 8 * time.Second
	// factsTime bounds all questions of one look at a cluster.
	factsTime = 20 * time.Second
	// groupsAtOnce is how many groups are read at the same time.
	groupsAtOnce = 8
)

// look asks the platform and all coordinators of a cluster, at the same time. With prove set each
// running coordinator proves itself too. The error is that of the coordinators when none answers;
// the facts are valid then as well.
func (a *App) look(ctx context.Context, c client.Context, prove bool) (overview.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	f := overview.Facts{Cluster: c.Cluster, Version: a.version(), Simulated: c.Simulated(), CAEnds: caEnds(c.CAPEM)}
	list, unlisted := a.everyCoordinator(ctx, c)
	defer closeAll(list)
	if unlisted != nil {
		f.Unread = append(f.Unread, "list the coordinators: "+oneLine(unlisted))
	}
	asking, asked := context.WithTimeout(ctx, askTime)
	defer asked()
	proofs := make([]proof, len(list))
	var proving sync.WaitGroup
	for i, one := range list {
		if prove && one.client != nil {
			proving.Go(func() { proofs[i] = a.prove(asking, c, one) })
		}
	}
	infos, failed := askEach(asking, list)
	proving.Wait()

	f.Coordinators = make([]overview.Coordinator, len(list))
	var answering *client.Client
	var firstError error
	for i, one := range list {
		said := overview.Coordinator{Name: one.name, CVM: one.cvm.Status}
		if err := failed[i]; err == nil {
			said.Answered, said.Leader, said.Term, said.Version = true, infos[i].GetLeader(), infos[i].GetTerm(), infos[i].GetVersion()
			if one.cvm.Name == "" {
				said.Name = infos[i].GetSelf()
			}
			if answering == nil || infos[i].GetSelf() == infos[i].GetLeader() {
				answering = one.client // the leader's records are the newest
			}
			if why := infos[i].GetHalted(); why != "" {
				f.Halted = why
			}
		} else {
			said.Problem, said.Untrusted = oneLine(err), client.KindOf(err) == client.Untrusted
			said.Refused = client.KindOf(err) == client.Denied
			if firstError == nil || client.KindOf(firstError) == client.Internal {
				firstError = err
			}
		}
		if p := proofs[i]; said.Answered && p.err != nil {
			said.Problem, said.Untrusted = oneLine(p.err), client.KindOf(p.err) == client.Untrusted
		} else if p.machine.Slot != "" {
			f.Machines = append(f.Machines, p.machine)
		}
		f.Coordinators[i] = said
	}
	f.Now = a.now()
	if answering == nil {
		return f, firstError
	}
	a.readRecords(ctx, answering, &f)
	f.Now = a.now()
	return f, nil
}

// proof is the outcome of one coordinator's attestation; zero: it was not asked.
type proof struct {
	machine policy.AdmissionStatus
	err     error
}

func (a *App) prove(ctx context.Context, c client.Context, one each) proof {
	opts := a.Dial
	opts.Instance = one.cvm.InstanceID
	got, err := client.Attest(ctx, c, opts)
	if err != nil {
		return proof{err: err}
	}
	return proof{machine: policy.MachineStatus(got.Slot, got.Claims.InstanceID, got.Claims.TCB, c.Trust.TCB, a.now())}
}

// askEach asks each coordinator about the cluster.
func askEach(ctx context.Context, list []each) ([]*apiv1.GetClusterResponse, []error) {
	infos, failed := make([]*apiv1.GetClusterResponse, len(list)), make([]error, len(list))
	var asking sync.WaitGroup
	for i, one := range list {
		if failed[i] = one.err; one.client != nil {
			asking.Go(func() { infos[i], failed[i] = one.client.Cluster(ctx) })
		}
	}
	asking.Wait()
	return infos, failed
}

// readRecords reads all that one coordinator gives. A part that fails is in f.Unread.
func (a *App) readRecords(ctx context.Context, cl *client.Client, f *overview.Facts) {
	var mu sync.Mutex // guards f.Unread
	var reading sync.WaitGroup
	unread := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			f.Unread = append(f.Unread, oneLine(err))
		}
	}
	reading.Go(func() { var err error; f.Slots, err = cl.Instances(ctx, ""); unread(err) })
	reading.Go(func() { var err error; f.Operations, err = cl.Operations(ctx, "", false); unread(err) })
	reading.Go(func() { var err error; f.Requests, err = cl.Requests(ctx, ""); unread(err) })
	reading.Go(func() { var err error; f.Overrides, err = cl.Overrides(ctx, ""); unread(err) })
	reading.Go(func() { var err error; f.Admissions, err = cl.Admissions(ctx, ""); unread(err) })
	reading.Go(func() { var err error; f.TCB, err = cl.TCB(ctx); unread(err) })
	reading.Go(func() {
		last, err := cl.LastBackup(ctx)
		unread(err)
		if err == nil {
			f.Backup = &last.At
		}
	})
	reading.Go(func() {
		list, err := cl.Groups(ctx)
		unread(err)
		f.Groups = make([]overview.Group, len(list))
		turns := make(chan struct{}, groupsAtOnce)
		var each sync.WaitGroup
		for i, g := range list {
			f.Groups[i] = overview.Group{Name: g.GetGroup(), Replicas: int(g.GetReplicas()), Available: int(g.GetAvailable()), Updated: int(g.GetUpdated()),
				Target: g.GetTargetRevision(), RolloutState: g.GetRolloutState(), Message: g.GetMessage()}
			each.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				one, err := cl.Group(ctx, g.GetGroup())
				if client.KindOf(err) == client.NotFound && err != nil {
					return // it was deleted meanwhile
				}
				unread(err)
				f.Groups[i].Conditions, f.Groups[i].Deleting = one.Status.Conditions, one.Deleting != nil && *one.Deleting
			})
		}
		each.Wait()
	})
	reading.Wait()
	slices.Sort(f.Unread)
	slices.SortStableFunc(f.Slots, func(x, y group.InstanceStatus) int {
		if x.Group != y.Group {
			return strings.Compare(x.Group, y.Group)
		}
		return x.Ordinal - y.Ordinal
	})
}

// caEnds is the end of the pinned CA; zero: it cannot be read.
func caEnds(text string) time.Time {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return time.Time{}
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return cert.NotAfter
}

// oneLine is an error without its hint.
func oneLine(err error) string {
	var called *client.Error
	if errors.As(err, &called) {
		return fmt.Sprintf("%s: %s", called.Doing, strings.ReplaceAll(called.Message, "\n", " "))
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
