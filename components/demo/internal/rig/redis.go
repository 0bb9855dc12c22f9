package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Groups of the Redis example.
const (
	Redis    = "redis"
	RedisApp = "redis-app"

	redisExample = "docs/examples/drivers/redis/"
)

// DeployRedis starts a local cloud with three coordinators, the Redis example and its writers, whose writes are
// steady then.
func (r *Rig) DeployRedis(ctx context.Context, n *Narrator) error {
	n.Say("starting a local cloud and three coordinators")
	if err := r.Up(ctx); err != nil {
		return err
	}
	if err := r.CreateCluster(ctx); err != nil {
		return err
	}
	n.Say("applying groups %s and %s", Redis, RedisApp)
	if err := r.ApplyRedis(ctx, "1"); err != nil {
		return err
	}
	if err := r.applyFile(ctx, redisExample+"app.hcl", []string{"agent", "load"}); err != nil {
		return err
	}
	for _, name := range []string{Redis, RedisApp} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	n.Say("waiting for steady writes")
	return r.AwaitMessages(ctx, RedisApp, time.Now(), 200)
}

// ApplyRedis writes the group's spec with the given release.
func (r *Rig) ApplyRedis(ctx context.Context, release string) error {
	return r.applyFile(ctx, redisExample+"redis.hcl", []string{"agent", "redis"}, "--var", "release="+release)
}

// ApplyBadAdapters makes the group bad, whose adapters of commands hang, flood and lie.
func (r *Rig) ApplyBadAdapters(ctx context.Context) error {
	return r.applyFile(ctx, "components/demo/e2e_redis/testdata/bad.hcl", []string{"agent", "redis"})
}

// RedisPrimary is the primary's Slot and the epoch of its reign, by the word of the Sentinel in a Slot.
func (r *Rig) RedisPrimary(ctx context.Context, slot string) (primary string, epoch uint64, err error) {
	const script = `peers=/var/lib/redis/peers
ask() { redis-cli -3 --json -h "$(sed -n "s/ $0\$//p" "$peers")" -p 26379 SENTINEL MASTER cadre; }
cat "$peers" && echo && ask`
	out, err := r.Exec(ctx, r.PlatformName(slot), "redis", "sh", "-c", script, slot)
	if err != nil {
		return "", 0, fmt.Errorf("ask the Sentinel of %s: %w", slot, err)
	}
	peers, said, _ := strings.Cut(out, "\n\n")
	var master struct {
		IP    string `json:"ip"`
		Epoch string `json:"config-epoch"`
	}
	if err := json.Unmarshal([]byte(said), &master); err != nil {
		return "", 0, fmt.Errorf("the Sentinel of %s says %q: %w", slot, tail(said, 200), err)
	}
	for line := range strings.Lines(peers) {
		if address, name, _ := strings.Cut(strings.TrimSpace(line), " "); address == master.IP {
			primary = name
		}
	}
	epoch, err = strconv.ParseUint(master.Epoch, 10, 64)
	return primary, epoch, err
}
