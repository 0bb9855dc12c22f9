package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/demo/load"
)

// Groups of the Kafka example.
const (
	Kafka    = "kafka"
	KafkaApp = "kafka-app"
)

// smallJVM lets three brokers run on a laptop.
const smallJVM = "jvm=-Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

// DeployKafka starts a local cloud with three coordinators, the Kafka example and its producers, whose records are
// acknowledged then.
func (r *Rig) DeployKafka(ctx context.Context, n *Narrator) error {
	n.Say("starting a local cloud and three coordinators")
	if err := r.Up(ctx); err != nil {
		return err
	}
	if err := r.CreateCluster(ctx); err != nil {
		return err
	}
	n.Say("applying groups %s and %s", Kafka, KafkaApp)
	if err := r.ApplyKafka(ctx, "1"); err != nil {
		return err
	}
	vars, err := r.ImageVars("agent", "load")
	if err != nil {
		return err
	}
	if err := r.apply(ctx, "clusters/kafka/app.hcl", vars); err != nil {
		return err
	}
	for _, name := range []string{Kafka, KafkaApp} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	n.Say("waiting for acknowledged records")
	return r.AwaitRecords(ctx, time.Now(), 200)
}

// ApplyKafka writes the brokers' group with the given release, and other variables as "name=value".
func (r *Rig) ApplyKafka(ctx context.Context, release string, extra ...string) error {
	vars, err := r.ImageVars("agent", "kafka")
	if err != nil {
		return err
	}
	for _, v := range append([]string{"release=" + release, smallJVM}, extra...) {
		vars = append(vars, "--var", v)
	}
	return r.apply(ctx, filepath.Join("clusters/kafka", "kafka.hcl"), vars)
}

// RecordSummary asks the producers for the figures of a span; zero times are open.
func (r *Rig) RecordSummary(ctx context.Context, from, to time.Time) (load.Summary, error) {
	var s load.Summary
	return s, r.recordCtl(ctx, &s, "summary", stamp(from), stamp(to))
}

// StopRecords stops the producers, and reads the topic: the verdict is an error if a record is there twice or out of
// order.
func (r *Rig) StopRecords(ctx context.Context) (load.Verdict, error) {
	var v load.Verdict
	if err := r.recordCtl(ctx, nil, "stop"); err != nil {
		return v, err
	}
	return v, r.recordCtl(ctx, &v, "verify")
}

// AwaitRecords waits until n records were acknowledged since then.
func (r *Rig) AwaitRecords(ctx context.Context, since time.Time, n int) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		s, err := r.RecordSummary(ctx, since, time.Time{})
		if err == nil && s.Acknowledged >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the producers did not get %d records acknowledged", n), ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (r *Rig) recordCtl(ctx context.Context, into any, args ...string) error {
	out, err := r.Exec(ctx, r.PlatformName(KafkaApp+"-0"), "load", append([]string{"cadre-load", "ctl"}, args...)...)
	if err != nil {
		return fmt.Errorf("ask the producers: %w", err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("read the producers' answer %q: %w", tail(out, 200), err)
	}
	return nil
}

// KafkaMember asks the adapter of a Slot.
func (r *Rig) KafkaMember(ctx context.Context, slot string) (adapter.Member, error) {
	var m adapter.Member
	out, err := r.Exec(ctx, r.PlatformName(slot), "kafka", "cadre-kafka-adapter", "-ask")
	if err != nil {
		return m, fmt.Errorf("ask the adapter of %s: %w", slot, err)
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return m, fmt.Errorf("read the answer of the adapter of %s, %q: %w", slot, tail(out, 200), err)
	}
	return m, nil
}
