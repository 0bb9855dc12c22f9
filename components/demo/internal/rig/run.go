package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cadre.dev/client"
	"cadre.dev/platform"
	"cadre.dev/platform/drivers"
)

// Rig is one local cloud with one cluster on it.
type Rig struct {
	// Root is the checkout; State the folder of everything that the rig makes.
	Root  string
	State string
	// BootDelay is how long a CVM of the local cloud boots.
	BootDelay time.Duration
	// Platform is the API that the local cloud speaks, "phala" or "vmm" for two hosts with dstack-vmm;
	// empty: phala.
	Platform string
	// Net is the network of the CVMs.
	Net Net
	// Programs lets CVMs run the checkout's programs in place of images.
	Programs bool
	// Routes deploys clusters/patroni-demo, whose load writes by two routes too, in place of
	// clusters/postgres.
	Routes bool
	// PostgresImage is the image of the database's group, of another version; empty: patroni.
	PostgresImage string
	// Log gets the output of the cadre binary; nil discards it.
	Log io.Writer

	// postgresVars go over the variables of the database's group.
	postgresVars []string
	// loadVars go over the variables of the load's group.
	loadVars []string

	client *client.Client
}

// Net is the network of the local cloud's CVMs. The zero Net has no NATs and no
// rendezvous: then the gateway is the only path.
type Net struct {
	// NAT is the kind of NAT in front of each CVM, of `cadre local up --nat`.
	NAT string
	// BlockUDP lets no UDP pass it.
	BlockUDP bool
}

// DefaultNet is the network of most machines on the internet.
var DefaultNet = Net{NAT: "port-restricted"}

// flags are the flags of `cadre local up`.
func (n Net) flags(bin string) []string {
	if n.NAT == "" {
		return nil
	}
	flags := []string{"--nat", n.NAT, "--rendezvous", filepath.Join(bin, "cadre-rendezvous")}
	if n.BlockUDP {
		flags = append(flags, "--udp", "blocked")
	}
	return flags
}

// Cloud is the part of the local cloud's cloud.json that the rig needs.
type Cloud struct {
	APIURL string `json:"api_url"`
	// LocalURL is the base of the endpoints that no real platform has.
	LocalURL       string `json:"local_url"`
	APIKey         string `json:"api_key"`
	GatewayAddress string `json:"gateway_address"`
	// PID is the daemon's process.
	PID int `json:"pid"`
}

// New returns a rig for the checkout at root with its state below state.
func New(root, state string, bootDelay time.Duration, log io.Writer) *Rig {
	r := At(root, state, log)
	r.BootDelay = bootDelay
	return r
}

// At returns a rig for the existing cluster at state: it can power it on, query it, and remove it.
func At(root, state string, log io.Writer) *Rig {
	if log == nil {
		log = io.Discard
	}
	return &Rig{Root: root, State: state, Log: log}
}

// postgresBin is the folder of the database's programs in its CVMs.
func (r *Rig) postgresBin() (string, error) {
	if !r.Programs {
		return imagePostgresBin, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		return "", errors.New("no PostgreSQL server below /usr/lib/postgresql: run make tools")
	}
	return found[len(found)-1], nil
}

// imagePostgresBin is where the image patroni has PostgreSQL: the default of postgres_bin in
// clusters/postgres/postgres.hcl.
const imagePostgresBin = "/usr/lib/postgresql/15/bin"

// groupID is the numeric id of one of this machine's groups.
func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", fmt.Errorf("find the group %s, which comes with PostgreSQL: %w", name, err)
	}
	return g.Gid, nil
}

// ContextFile is the operator's context of the rig's cluster.
func (r *Rig) ContextFile() string { return filepath.Join(r.State, "context.json") }

// CloudFile is the local cloud's description of itself.
func (r *Rig) CloudFile() string { return filepath.Join(r.State, "cloud", "cloud.json") }

// Cloud reads the local cloud's description.
func (r *Rig) Cloud() (Cloud, error) {
	data, err := os.ReadFile(r.CloudFile())
	if err != nil {
		return Cloud{}, fmt.Errorf("read the local cloud's description: %w", err)
	}
	var cloud Cloud
	if err := json.Unmarshal(data, &cloud); err != nil {
		return Cloud{}, fmt.Errorf("read %s: %w", r.CloudFile(), err)
	}
	return cloud, nil
}

// Cadre runs the cadre binary with the rig's context and returns its output.
func (r *Rig) Cadre(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := r.cadre(ctx, args...)
	cmd.Stdout = io.MultiWriter(&out, r.Log)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("cadre %s: %w: %s", args[0], err, tail(out.String(), 2000))
	}
	return out.String(), nil
}

// CadreJSON runs Cadre with -o json and returns its output.
func (r *Rig) CadreJSON(ctx context.Context, args ...string) ([]byte, error) {
	var out, problem bytes.Buffer
	cmd := r.cadre(ctx, append([]string{"-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, r.Log), io.MultiWriter(&problem, r.Log)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cadre %s: %w: %s", args[0], err, tail(problem.String(), 2000))
	}
	return out.Bytes(), nil
}

func (r *Rig) cadre(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(r.Root, "bin", "cadre"), args...)
	cmd.Env = append(os.Environ(), "CADRE_CONTEXT="+r.ContextFile(), "NO_COLOR=1")
	// An interrupted demo must not leave half an operation behind: the command ends itself.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// Up starts the local cloud and creates the cluster's coordinators.
func (r *Rig) Up(ctx context.Context) error {
	if err := os.MkdirAll(r.State, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	// The next cloud reuses the images that one cloud unpacked.
	args := []string{"local", "up", "--state", filepath.Dir(r.CloudFile()), "--boot-delay", r.BootDelay.String(), "--image-store", filepath.Join(r.Root, ".out", "image-store")}
	if r.Programs {
		args = append(args, "--programs")
	}
	if r.Platform != "" {
		args = append(args, "--platform", r.Platform)
	}
	out, err := r.CadreJSON(ctx, append(args, r.Net.flags(filepath.Join(r.Root, "bin"))...)...)
	if err != nil {
		return err
	}
	return r.keepPinned(out)
}

// CreateCluster deploys the coordinators and waits until they answer and are proven.
func (r *Rig) CreateCluster(ctx context.Context) error {
	if err := r.createCluster(ctx, "clusters/postgres/cluster.hcl"); err != nil {
		return err
	}
	_, err := r.Client()
	return err
}

// createCluster deploys a cluster file of the checkout.
func (r *Rig) createCluster(ctx context.Context, file string) error {
	vars, err := r.ImageVars("coordinator")
	if err != nil {
		return err
	}
	args := append([]string{"cluster", "create", "--context", r.ContextFile(), "--var", "cloud=" + r.CloudFile()}, vars...)
	if _, err = r.Cadre(ctx, append(args, filepath.Join(r.Root, file))...); err != nil {
		return err
	}
	return r.configureRendezvous(ctx)
}

// configureRendezvous lets members of the cluster in at the cloud's rendezvous server.
func (r *Rig) configureRendezvous(ctx context.Context) error {
	if r.Net.NAT == "" {
		return nil
	}
	ca, err := r.Cadre(ctx, "cluster", "ca")
	if err != nil {
		return err
	}
	c, err := client.LoadContext(r.ContextFile())
	if err != nil {
		return err
	}
	file := filepath.Join(filepath.Dir(r.CloudFile()), "rendezvous", "roots", c.Cluster+".pem")
	if err := os.WriteFile(file, []byte(ca), 0o600); err != nil {
		return fmt.Errorf("register the cluster at the rendezvous: %w", err)
	}
	return nil
}

// Client returns the API client of the rig's cluster.
func (r *Rig) Client() (*client.Client, error) {
	if r.client != nil {
		return r.client, nil
	}
	c, err := client.LoadContext(r.ContextFile())
	if err != nil {
		return nil, err
	}
	r.client, err = client.Dial(c, client.Options{})
	return r.client, err
}

// PlatformClient returns a client of the local cloud's platform.
func (r *Rig) PlatformClient() (platform.Platform, error) {
	facts, err := r.Cloud()
	if err != nil {
		return nil, err
	}
	return drivers.Open(drivers.Options{API: facts.APIURL, Key: facts.APIKey})
}

// PowerOn starts the local cloud that was there before, as it was.
func (r *Rig) PowerOn(ctx context.Context) error {
	r.hangUp()
	_, err := r.Cadre(ctx, "local", "up", "--state", filepath.Dir(r.CloudFile()))
	return err
}

// hangUp lets go of the connection to a cluster that is about to go or was away.
func (r *Rig) hangUp() {
	if r.client != nil {
		_ = r.client.Close()
		r.client = nil
	}
}

// Down removes the local cloud and everything in it, of any starter.
func (r *Rig) Down(ctx context.Context) error {
	_, err := r.Remove(ctx)
	return err
}
