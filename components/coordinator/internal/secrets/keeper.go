package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/coordinator/internal/durable"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/secret"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// Server is this coordinator's Consul server.
type Server interface {
	// UseGossip makes key the first key of the server's next start; restart restarts the server for
	// it.
	UseGossip(key secret.Value, restart bool) error
}

// KeeperConfig of a Keeper. All fields are required.
type KeeperConfig struct {
	Keys   Keys
	Server Server
	// Store reads through that server, consistently: a server outside of the gossip pool cannot,
	// even if Raft still reaches it.
	Store store.Store
	Views *view.Watcher
	// StateDir is on disk: it has the epoch, and never a key.
	StateDir string
	// First is the epoch of the server's start (StartEpoch).
	First uint32
	Log   *slog.Logger
}

// Keeper keeps this coordinator's Consul server in the gossip pool across rotations. A server that
// missed a rotation has an unused key, and cannot read the records with the current epoch. So the
// Keeper asks the other coordinators, over Sessions that the cluster's CA authenticates. Safe for
// concurrent use.
type Keeper struct {
	controlv1.UnimplementedPeerServiceServer

	cfg KeeperConfig

	mu       sync.Mutex
	epoch    uint32            // guarded by mu; the epoch of the server's next start
	answers  map[string]answer // guarded by mu; the answers by coordinator
	alone    time.Time         // guarded by mu; since when no record can be read; zero: they can
	recorded answer            // guarded by mu; the last read of the record
}

// answer of another coordinator.
type answer struct {
	epoch   uint32
	inForce bool
	at      time.Time
}

const (
	epochFile = "gossip-epoch.json"
	// aloneFor is how long reads must fail before the gossip key is doubted: longer than an
	// election.
	aloneFor = 10 * time.Second
	// askEvery is the interval of the questions among coordinators, and of the check of the own
	// server.
	askEvery = 2 * time.Second
	// answerFor is how long an answer is valid.
	answerFor = 3 * askEvery
)

// StartEpoch returns the last epoch that this coordinator knew to be in force, or the first epoch
// without such a record.
func StartEpoch(stateDir string) (uint32, error) {
	file, err := os.Open(filepath.Join(stateDir, epochFile))
	if errors.Is(err, fs.ErrNotExist) {
		return firstEpoch, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the last gossip epoch: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	var kept struct{ Epoch uint32 }
	if err := json.NewDecoder(io.LimitReader(file, 1<<10)).Decode(&kept); err != nil || kept.Epoch < firstEpoch {
		// An unreadable file must not stop the coordinator: the others know the epoch.
		return firstEpoch, nil
	}
	return kept.Epoch, nil
}

// NewKeeper returns a Keeper.
func NewKeeper(cfg KeeperConfig) *Keeper {
	return &Keeper{cfg: cfg, epoch: cfg.First, answers: map[string]answer{}}
}

// Run follows the records and the other coordinators until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	failing := ""
	for {
		_, changed := k.cfg.Views.Latest()
		if err := k.look(ctx); err != nil && ctx.Err() == nil {
			if text := err.Error(); text != failing {
				k.cfg.Log.Warn("gossip key not followed", "error", err)
				failing = text
			}
		} else {
			failing = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// look adopts the recorded epoch, or the answer of the others when no record can be read.
func (k *Keeper) look(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, askEvery)
	rec, _, err := store.Read[store.SecretRecord](call, k.cfg.Store, store.SecretKey(view.GossipKey.Group, view.GossipKey.Name))
	cancel()
	now := time.Now()
	if err == nil {
		k.mu.Lock()
		k.alone, k.recorded = time.Time{}, answer{epoch: rec.Epoch, inForce: true, at: now}
		k.mu.Unlock()
		return k.use(ctx, rec.Epoch, false)
	}
	if bad := (*store.RecordError)(nil); errors.As(err, &bad) {
		return err // the store can be read, so no other key is in question
	}
	k.mu.Lock()
	if errors.Is(err, store.ErrNotFound) {
		k.alone = time.Time{}
	} else if k.alone.IsZero() {
		k.alone = now
	}
	epoch, yes := doubt(k.epoch, k.alone, k.answers, now)
	if yes {
		k.alone = now // give it time to join
	}
	k.mu.Unlock()
	if !yes {
		return nil
	}
	k.cfg.Log.Info("another gossip key is in force; this coordinator's consul joins with it", "epoch", epoch)
	return k.use(ctx, epoch, true)
}

// doubt decides whether a server that started with the key of epoch own must restart with another.
// This needs reads that fail for a while, and a coordinator that can read and reports another
// epoch. If no coordinator can read, a later epoch known to any of them is enough. Then all use the
// highest, so that they meet.
func doubt(own uint32, alone time.Time, answers map[string]answer, now time.Time) (epoch uint32, yes bool) {
	if alone.IsZero() || now.Sub(alone) < aloneFor {
		return 0, false
	}
	highest := own
	for _, a := range answers {
		if now.Sub(a.at) > answerFor {
			continue
		}
		if a.inForce {
			return a.epoch, a.epoch != own
		}
		highest = max(highest, a.epoch)
	}
	return highest, highest != own
}

// use stores the epoch and makes its key the one of the next start.
func (k *Keeper) use(ctx context.Context, epoch uint32, restart bool) error {
	k.mu.Lock()
	same := k.epoch == epoch
	k.mu.Unlock()
	if same {
		return nil
	}
	key, err := k.cfg.Keys.Gossip(ctx, epoch)
	if err != nil {
		return err
	}
	if err := k.cfg.Server.UseGossip(key, restart); err != nil {
		return err
	}
	if err := k.remember(epoch); err != nil {
		return err
	}
	k.mu.Lock()
	k.epoch = epoch
	k.mu.Unlock()
	return nil
}

func (k *Keeper) remember(epoch uint32) error {
	text, err := json.Marshal(struct{ Epoch uint32 }{epoch})
	if err != nil {
		return fmt.Errorf("encode gossip epoch: %w", err)
	}
	path := filepath.Join(k.cfg.StateDir, epochFile)
	if err := os.MkdirAll(k.cfg.StateDir, 0o700); err != nil {
		return fmt.Errorf("remember gossip epoch: %w", err)
	}
	// Coordinators that all start with an outdated key would form a pool without the members.
	if err := durable.WriteFile(path, text); err != nil {
		return fmt.Errorf("remember gossip epoch: %w", err)
	}
	return nil
}

// GetEpochs implements PeerService.
func (k *Keeper) GetEpochs(context.Context, *controlv1.GetEpochsRequest) (*controlv1.GetEpochsResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.recorded.inForce && time.Since(k.recorded.at) <= answerFor {
		return &controlv1.GetEpochsResponse{GossipEpoch: k.recorded.epoch, InForce: true}, nil
	}
	return &controlv1.GetEpochsResponse{GossipEpoch: k.epoch}, nil
}

// OnControl serves the other coordinator until its control session ends: each answers the other on
// one of the two connections.
func (k *Keeper) OnControl(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	asking, answering := conns.First, conns.Second
	if !conns.Dialer {
		asking, answering = answering, asking
	}
	client, err := grpcconn.Client(asking)
	if err != nil {
		k.cfg.Log.Warn("coordinators' session not usable", "peer", peer.ID.Slot, "error", err)
		_ = answering.Close()
		return
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asks sync.WaitGroup
	defer asks.Wait()
	asks.Go(func() { k.ask(ctx, peer.ID.Slot, controlv1.NewPeerServiceClient(client)) })
	err = grpcconn.Serve(ctx, answering, func(server *grpc.Server) {
		controlv1.RegisterPeerServiceServer(server, k)
	}, grpcserver.Limits{Message: 4 << 10, Calls: 4})
	cancel()
	k.cfg.Log.Debug("coordinators' session ended", "peer", peer.ID.Slot, "error", err)
}

// ask keeps the answer of one coordinator fresh.
func (k *Keeper) ask(ctx context.Context, slot string, peer controlv1.PeerServiceClient) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, askEvery)
		got, err := peer.GetEpochs(call, &controlv1.GetEpochsRequest{})
		cancel()
		if err == nil && got.GetGossipEpoch() >= firstEpoch {
			k.mu.Lock()
			k.answers[slot] = answer{epoch: got.GetGossipEpoch(), inForce: got.GetInForce(), at: time.Now()}
			k.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
