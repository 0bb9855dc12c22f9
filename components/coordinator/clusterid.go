package coordinator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/status"
	"cadre.dev/overlay"
	"cadre.dev/platform"
)

// settle determines this coordinator's cluster ID. Until then the coordinator only answers first
// contacts of other coordinators.
func (c *Coordinator) settle(ctx context.Context) error {
	known, err := bootstrap.Load(c.cfg.StateDir)
	if err != nil {
		return err
	}
	work := newTasks(ctx)
	defer work.stop()
	if known.ClusterID == "" && c.cfg.Replicas > 1 {
		if err := c.answerUnsettled(ctx, work); err != nil {
			return err
		}
	}
	if c.clusterID, err = bootstrap.Settle(work.ctx, c.clusterIDConfig()); err != nil && ctx.Err() == nil && work.ctx.Err() != nil { //nolint:contextcheck // work ends with ctx
		return context.Cause(work.ctx) //nolint:contextcheck // why the tasks ended
	}
	return err
}

// answerUnsettled runs two tasks in work: one proves to others that this coordinator knows no
// cluster ID, the other locates them.
func (c *Coordinator) answerUnsettled(ctx context.Context, work *tasks) error {
	prover := bootstrap.NewProver(c.ownClusterID(c.boot.Leaf.RawSubjectPublicKeyInfo), c.quoter, c.log)
	node, err := overlay.New(overlay.Config{
		Self:    overlay.ID{Cluster: c.cfg.Cluster, Group: peering.CoordinatorGroup, Slot: c.cfg.Slot},
		SelfVIP: c.cfg.vip(), Listen: c.cfg.SessionListen, Gateway: c.cfg.Gateway, Log: c.log,
		Paths: []overlay.PathKind{overlay.PathGateway}, ServeAdmission: prover.Serve,
	})
	if err != nil {
		return fmt.Errorf("make overlay node: %w", err)
	}
	// There is no CA yet, so no Session is possible.
	node.SetCredentials(overlay.Credentials{Certificate: c.boot, Roots: x509.NewCertPool()})
	local, err := new(net.ListenConfig).Listen(ctx, "tcp", c.cfg.StatusListen)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	work.run("overlay", node.Run)
	work.run("discovery", func(ctx context.Context) error { return c.peers.Run(ctx, func() {}, func([]platform.Instance) {}) })
	work.run("status", func(ctx context.Context) error {
		return status.Run(ctx, local, status.Pages{Metrics: status.NewMetrics(), Health: func() status.Health { return status.Health{Slot: c.cfg.Slot} }})
	})
	return nil
}

// ownClusterID is this coordinator's statement on connections with a certificate of that key.
func (c *Coordinator) ownClusterID(publicKey []byte) statement.ClusterID {
	return statement.ClusterID{
		Cluster: c.cfg.Cluster, ClusterID: c.clusterID.ClusterID, AppID: c.info.AppID, Slot: c.cfg.Slot, TLSPublicKey: publicKey,
	}
}

func (c *Coordinator) clusterIDConfig() bootstrap.Config {
	asker := &bootstrap.Asker{
		Cluster: c.cfg.Cluster, AppID: c.info.AppID, Gateway: c.cfg.Gateway, Boot: c.boot,
		Verifier: c.finder, Images: c.cfg.Trust.ImagePolicy(), Now: c.deps.Now,
	}
	return bootstrap.Config{
		Ordinal: c.cfg.ordinal(), Replicas: c.cfg.Replicas, Pinned: c.cfg.Trust.ClusterID, Restore: c.cfg.RestoreClusterID, StateDir: c.cfg.StateDir, Log: c.log,
		Ask: func(ctx context.Context, ordinal int) (string, error) {
			other := c.peers.Members()[ordinal]
			if other.InstanceID == "" {
				return "", errors.New("the platform does not list it yet")
			}
			return asker.Ask(ctx, other.InstanceID, other.Slot)
		},
	}
}

// confirm compares the records with this coordinator's cluster ID, and creates its record in an
// empty store.
func (c *Coordinator) confirm(ctx context.Context) error {
	err := bootstrap.Record(ctx, c.store, c.cfg.StateDir, c.clusterID, c.cfg.Slot, c.deps.Now())
	if err == nil {
		close(c.confirmed)
	}
	return err
}

// agreeEvery is how often coordinators with unreadable records compare their cluster IDs: longer
// than a first election.
const agreeEvery = 30 * time.Second

// agree logs why Consul gets no leader, if coordinators of several cluster IDs try to form one
// cluster.
func (c *Coordinator) agree(ctx context.Context) error {
	tick := time.NewTicker(agreeEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.confirmed:
			return nil
		case <-tick.C:
		}
		err := bootstrap.Disagree(ctx, c.clusterIDConfig(), c.clusterID.ClusterID)
		if err != nil && err.Error() != last {
			last = err.Error()
			c.log.Error("coordinators of other cluster IDs do not belong to this cluster", "error", err)
		}
	}
}

// waits reports that this coordinator has no records and did not draw its cluster ID: the records
// come from another coordinator or from a backup.
func (c *Coordinator) waits() bool { return c.clusterID.Waits() && !c.hasRecords() }

func (c *Coordinator) hasRecords() bool {
	select {
	case <-c.confirmed:
		return true
	default:
		return c.clusterID.Recorded
	}
}

// serveAdmission serves a first contact. Before the cluster ID is recorded no other record may be
// written, so that agents of a lost cluster are admitted only after the restore.
func (c *Coordinator) serveAdmission(ctx context.Context, conn net.Conn, state tls.ConnectionState) {
	if !c.hasRecords() {
		c.prover.Serve(ctx, conn, state)
		return
	}
	c.admission.Serve(ctx, conn, state)
}

// afterConfirmed starts a task once the records are confirmed to be of this cluster ID.
func (c *Coordinator) afterConfirmed(task func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-c.confirmed:
			return task(ctx)
		}
	}
}
