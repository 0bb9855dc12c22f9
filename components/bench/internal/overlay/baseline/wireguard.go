package baseline

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/lab/worker"
)

// WireGuardConfig is the config of the role "wireguard", one end of a tunnel.
type WireGuardConfig struct {
	Key      string         `json:"key"`      // hex
	Peer     string         `json:"peer"`     // hex, the other end's public key
	Port     uint16         `json:"port"`     // where this end listens
	Endpoint netip.AddrPort `json:"endpoint"` // where the other end does
	Address  netip.Prefix   `json:"address"`  // of this end inside the tunnel
	Remote   netip.Addr     `json:"remote"`   // of the other end inside the tunnel
}

// WireGuardKey makes a key pair in hex.
func WireGuardKey() (private, public string, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make key: %w", err)
	}
	return hex.EncodeToString(key.Bytes()), hex.EncodeToString(key.PublicKey().Bytes()), nil
}

// WireGuard is the role "wireguard": the user-space device on a TUN of the
// worker's namespace, with the segmentation offloads that it finds.
func WireGuard(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var c WireGuardConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	link, err := tun.CreateTUN("wg0", device.DefaultMTU)
	if err != nil {
		return worker.Actor{}, fmt.Errorf("make TUN: %w", err)
	}
	dev := device.NewDevice(link, conn.NewDefaultBind(), &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf:   func(format string, args ...any) { fmt.Fprintf(os.Stderr, "wireguard: "+format+"\n", args...) },
	})
	settings := fmt.Sprintf("private_key=%s\nlisten_port=%d\npublic_key=%s\nendpoint=%s\nallowed_ip=%s/32\n", c.Key, c.Port, c.Peer, c.Endpoint, c.Remote)
	if err := dev.IpcSet(settings); err != nil {
		dev.Close()
		return worker.Actor{}, fmt.Errorf("set up device: %w", err)
	}
	if err := dev.Up(); err != nil {
		dev.Close()
		return worker.Actor{}, fmt.Errorf("start device: %w", err)
	}
	for _, args := range [][]string{{"addr", "add", c.Address.String(), "dev", "wg0"}, {"link", "set", "wg0", "up"}} {
		if err := place.Run(ctx, worker.Here{}, "ip", args...); err != nil {
			dev.Close()
			return worker.Actor{}, err
		}
	}
	return worker.Actor{Close: dev.Close}, nil
}
