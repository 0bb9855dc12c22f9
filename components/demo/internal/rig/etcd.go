package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/demo/load"
)

// Groups of the etcd example.
const (
	Etcd    = "etcd"
	EtcdApp = "etcd-app"
)

// etcdMinReady is the min_ready_seconds of clusters/etcd.
const etcdMinReady = 3 * time.Second

// DeployEtcd starts a local cloud with three coordinators, the etcd example and its clients,
// whose writes are steady then. Variables are given as "name=value".
func (r *Rig) DeployEtcd(ctx context.Context, n *Narrator, vars ...string) error {
	n.Say("starting a local cloud and three coordinators")
	if err := r.Up(ctx); err != nil {
		return err
	}
	if err := r.CreateCluster(ctx); err != nil {
		return err
	}
	n.Say("applying groups %s and %s", Etcd, EtcdApp)
	if err := r.ApplyEtcd(ctx, "1", vars...); err != nil {
		return err
	}
	if err := r.ApplyEtcdApp(ctx); err != nil {
		return err
	}
	for _, name := range []string{Etcd, EtcdApp} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	n.Say("waiting for steady writes")
	return r.AwaitRegisterWrites(ctx, time.Now(), 200)
}

// ApplyEtcd writes the etcd group's spec with the given release, and other variables as
// "name=value".
func (r *Rig) ApplyEtcd(ctx context.Context, release string, vars ...string) error {
	return r.ApplyEtcdOf(ctx, "etcd", release, vars...)
}

// ApplyEtcdOf is ApplyEtcd with an image of another version of etcd.
func (r *Rig) ApplyEtcdOf(ctx context.Context, image, release string, vars ...string) error {
	args, err := r.imageVar("etcd", image)
	if err != nil {
		return err
	}
	args = append(args, "--var", "release="+release)
	for _, v := range vars {
		args = append(args, "--var", v)
	}
	return r.applyFile(ctx, "clusters/etcd/etcd.hcl", []string{"agent"}, args...)
}

// ApplyEtcdApp writes the group of the clients.
func (r *Rig) ApplyEtcdApp(ctx context.Context) error {
	return r.applyFile(ctx, "clusters/etcd/app.hcl", []string{"agent", "load"})
}

// RegisterSummary asks the clients for the figures of a span; zero times are open.
func (r *Rig) RegisterSummary(ctx context.Context, from, to time.Time) (load.RegisterSummary, error) {
	var s load.RegisterSummary
	return s, r.registerCtl(ctx, &s, "summary", stamp(from), stamp(to))
}

// StopRegisters stops the clients, checks their history, and looks for the
// acknowledged writes in etcd.
func (r *Rig) StopRegisters(ctx context.Context) (load.Linearizability, load.Verdict, error) {
	var (
		checked load.Linearizability
		found   load.Verdict
	)
	if err := r.registerCtl(ctx, nil, "stop"); err != nil {
		return checked, found, err
	}
	err := errors.Join(r.registerCtl(ctx, &checked, "check"), r.registerCtl(ctx, &found, "verify"))
	return checked, found, err
}

func (r *Rig) registerCtl(ctx context.Context, into any, args ...string) error {
	return r.loadCtlOf(ctx, EtcdApp, into, args...)
}

// AwaitRegisterWrites waits until n writes were acknowledged since then.
func (r *Rig) AwaitRegisterWrites(ctx context.Context, since time.Time, n int) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		s, err := r.RegisterSummary(ctx, since, time.Time{})
		if err == nil && s.Acknowledged >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the clients did not get %d writes acknowledged", n), ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// EtcdMember is a member's own report, and the content of its disk.
type EtcdMember struct {
	// ID is the member's id in hexadecimal.
	ID     string
	Leader bool
	// Version of its server, and of its data where the server reports one.
	Version, Data string
	// Marker is the text that MarkEtcdDisk left; empty when there is none.
	Marker string
}

const etcdMarker = "/var/lib/etcd/marker"

// MarkEtcdDisk leaves text on the Slot's data disk.
func (r *Rig) MarkEtcdDisk(ctx context.Context, slot, text string) error {
	_, err := r.Exec(ctx, r.PlatformName(slot), "etcd", "sh", "-c", `echo "$1" > "$0"`, etcdMarker, text)
	return err
}

// EtcdMemberOf asks the Slot's own member.
func (r *Rig) EtcdMemberOf(ctx context.Context, slot string) (EtcdMember, error) {
	out, err := r.Exec(ctx, r.PlatformName(slot), "etcd", "etcdctl", "--endpoints=127.0.0.1:2379", "endpoint", "status", "-w", "json")
	if err != nil {
		return EtcdMember{}, fmt.Errorf("ask etcd of %s: %w", slot, err)
	}
	var answers []struct {
		Status struct {
			Header struct {
				MemberID uint64 `json:"member_id"`
			} `json:"header"`
			Leader         uint64 `json:"leader"`
			Version        string `json:"version"`
			StorageVersion string `json:"storageVersion"`
		} `json:"Status"`
	}
	if err := json.Unmarshal([]byte(out), &answers); err != nil || len(answers) != 1 {
		return EtcdMember{}, errors.Join(fmt.Errorf("read what etcd of %s said: %q", slot, tail(out, 200)), err)
	}
	status := answers[0].Status
	m := EtcdMember{ID: strconv.FormatUint(status.Header.MemberID, 16), Leader: status.Leader == status.Header.MemberID, Version: status.Version, Data: status.StorageVersion}
	marker, err := r.Exec(ctx, r.PlatformName(slot), "etcd", "sh", "-c", `cat "$0" 2>/dev/null || true`, etcdMarker)
	m.Marker = strings.TrimSpace(marker)
	return m, err
}

// EtcdSet is the etcd cluster's membership in the list of the Slot's member: the names of the
// voters, sorted, and the number of other members.
func (r *Rig) EtcdSet(ctx context.Context, slot string) (voters []string, others int, err error) {
	out, err := r.Exec(ctx, r.PlatformName(slot), "etcd", "etcdctl", "--endpoints=127.0.0.1:2379", "member", "list", "-w", "json")
	if err != nil {
		return nil, 0, fmt.Errorf("ask etcd of %s: %w", slot, err)
	}
	var list struct {
		Members []struct {
			Name      string `json:"name"`
			IsLearner bool   `json:"isLearner"`
		} `json:"members"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, 0, fmt.Errorf("read what etcd of %s said: %q: %w", slot, tail(out, 200), err)
	}
	for _, m := range list.Members {
		if m.IsLearner || m.Name == "" {
			others++
			continue
		}
		voters = append(voters, m.Name)
	}
	slices.Sort(voters)
	return voters, others, nil
}
