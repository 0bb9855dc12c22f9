package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/attest"
	"cadre.dev/cli/internal/diff"
	"cadre.dev/cli/internal/render"
	"cadre.dev/compose/lint"
	"cadre.dev/core/appcompose"
)

type hashFlags struct {
	fromCompose              bool
	compare, write           string
	appID, keyProviderID     string
	name, provider, storage  string
	envs                     []string
	script                   string
	initScript               bool
	gateway, logs, sysinfo   bool
	secureTime               bool
	publicTcb, noInstanceID  bool
	swap                     int64
	setTcb, setNoInstanceIDs bool
}

// hashed is the outcome, also the form of -o json.
type hashed struct {
	File string `json:"file"`
	attest.IDs
	Bytes       int      `json:"bytes"`
	KeyProvider string   `json:"key_provider"`
	Warnings    []string `json:"warnings"`
	// Compared is set with --compare.
	Compared *compared `json:"compared,omitempty"`
}

type compared struct {
	File        string        `json:"file"`
	ComposeHash string        `json:"compose_hash"`
	Same        bool          `json:"same"`
	SameMeaning bool          `json:"same_meaning"`
	Fields      []diff.Change `json:"fields"`
	// FirstByte is the offset of the first byte that differs.
	FirstByte int `json:"first_byte"`
}

func (a *App) composeHash() *cobra.Command {
	var f hashFlags
	c := &cobra.Command{
		Use: "hash FILE", Short: "Print the compose hash of app-compose.json, and the values derived from it", Args: cobra.ExactArgs(1),
		Long: `The compose hash is the SHA-256 of exactly the bytes of app-compose.json as the
guest gets it. Nothing normalises them: white space, key order and a final newline
count.

With --from-docker-compose FILE is a docker compose file: app-compose.json is built
around it from the flags, in the form that dstack's SDKs write (keys sorted, compact,
UTF-8). That is the hash for hosts where you deliver the bytes yourself (dstack-vmm);
keep them with --write.

What Cadre runs is measured with a document that Cadre renders whole; "cadre
admission app-compose" prints it for a revision. To audit a CVM, save
tcb_info.app_compose of it without a change and give that file here.

With --compare the exit code is 1 when the hashes differ.`,
		Example: "  cadre compose hash app-compose.json\n" +
			"  cadre compose hash --from-docker-compose docker-compose.yaml --name web-0 --allowed-env DB_HOST --write app-compose.json\n" +
			"  cadre compose hash app-compose.json --compare deployed.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.setTcb, f.setNoInstanceIDs = cmd.Flags().Changed("public-tcbinfo"), cmd.Flags().Changed("no-instance-id")
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.hash(args[0], f)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.fromCompose, "from-docker-compose", false, "FILE is a docker compose file: build app-compose.json around it")
	fl.StringVar(&f.compare, "compare", "", "another app-compose.json: print what differs")
	fl.StringVarP(&f.write, "write", "w", "", "write the bytes of the built app-compose.json to this file")
	fl.StringVar(&f.appID, "app-id", "", "app id for mr_config_id v2, 40 hex digits (default: the first 40 of the hash)")
	fl.StringVar(&f.keyProviderID, "key-provider-id", "", "id of the key provider, hex, for mr_config_id v2 and key_provider_id")
	fl.StringVar(&f.name, "name", "", "name of the app")
	fl.StringVar(&f.provider, "key-provider", "kms", "none, kms, local or tpm")
	fl.StringArrayVar(&f.envs, "allowed-env", nil, "name that the encrypted environment may set; may be repeated, the order counts")
	fl.StringVar(&f.script, "pre-launch-script", "", "file with the pre-launch script")
	fl.BoolVar(&f.initScript, "init-script", false, "add the init_script that Cadre accepts no document without")
	fl.StringVar(&f.storage, "storage-fs", "", "zfs or ext4")
	fl.BoolVar(&f.gateway, "gateway", true, "gateway_enabled")
	fl.BoolVar(&f.logs, "public-logs", false, "public_logs")
	fl.BoolVar(&f.sysinfo, "public-sysinfo", true, "public_sysinfo")
	fl.BoolVar(&f.secureTime, "secure-time", true, "secure_time; false where the trust file has secure_time_off")
	fl.BoolVar(&f.publicTcb, "public-tcbinfo", true, "public_tcbinfo; left out of the document unless given")
	fl.BoolVar(&f.noInstanceID, "no-instance-id", false, "no_instance_id; left out of the document unless given")
	fl.Int64Var(&f.swap, "swap-size", 0, "swap_size in bytes; left out when 0")
	c.ValidArgsFunction = completeFiles("json", "yaml", "yml")
	completeOr(c.RegisterFlagCompletionFunc("key-provider", cobra.FixedCompletions(appcompose.Providers, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// buildFlags apply to a built document; for a finished document they would have no effect.
var buildFlags = []string{
	"write", "name", "key-provider", "allowed-env", "pre-launch-script", "init-script", "storage-fs", "gateway", "public-logs", "public-sysinfo",
	"secure-time", "public-tcbinfo", "no-instance-id", "swap-size",
}

func (f hashFlags) check(cmd *cobra.Command) error {
	for _, name := range buildFlags {
		if cmd.Flags().Changed(name) && !f.fromCompose {
			return usagef("--%s builds a document: give --from-docker-compose and a docker compose file with it", name)
		}
	}
	return nil
}

func (a *App) hash(name string, f hashFlags) error {
	raw, err := a.input(name)
	if err != nil {
		return err
	}
	out := hashed{File: name, Warnings: []string{}}
	if f.fromCompose {
		if raw, err = a.build(raw, f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	doc, err := appcompose.Read(raw)
	if err != nil {
		return fmt.Errorf("%s: %w; for a docker compose file give --from-docker-compose", name, err)
	}
	out.Bytes, out.KeyProvider = len(raw), doc.Provider()
	id := f.keyProviderID
	if id == "" {
		id = doc.KeyProviderID
	}
	if out.IDs, err = attest.Identify(raw, f.appID, out.KeyProvider, id); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	out.Warnings = append(out.Warnings, appcompose.Oddities(raw)...)
	if id == "" && out.KeyProvider != "none" {
		out.Warnings = append(out.Warnings, "mr_config_id v2 is computed for an empty key provider id: give --key-provider-id to get that of a host which pins one")
	}
	if found := len(lint.Errors(lint.AppCompose(raw, appcompose.Rules{KeyProviderID: doc.KeyProviderID, SecureTimeOff: !f.secureTime}))); found > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("no boot is admitted with this document: `cadre compose lint` names %d of the reasons", found))
	}
	if f.compare != "" {
		if out.Compared, err = a.compareWith(f.compare, raw, out.ComposeHash); err != nil {
			return err
		}
	}
	if f.write != "" {
		if err := os.WriteFile(f.write, raw, 0o600); err != nil {
			return fmt.Errorf("write app-compose.json: %w", err)
		}
	}
	if err := a.show(out, out.picture); err != nil {
		return err
	}
	if out.Compared != nil && !out.Compared.Same {
		return silent{ExitError}
	}
	return nil
}

func (a *App) build(compose []byte, f hashFlags) ([]byte, error) {
	fields := appcompose.Fields{
		Name: f.name, DockerComposeFile: string(compose), AllowedEnvs: f.envs, KeyProvider: f.provider, KeyProviderID: f.keyProviderID,
		GatewayEnabled: f.gateway, PublicLogs: f.logs, PublicSysinfo: f.sysinfo, SecureTime: f.secureTime, StorageFS: f.storage, SwapSize: f.swap,
	}
	if f.setTcb {
		fields.PublicTcbinfo = &f.publicTcb
	}
	if f.setNoInstanceIDs {
		fields.NoInstanceID = &f.noInstanceID
	}
	if f.initScript {
		fields.InitScript = appcompose.InitScript
	}
	if f.script != "" {
		script, err := a.input(f.script)
		if err != nil {
			return nil, err
		}
		fields.PreLaunchScript = string(script)
	}
	if appcompose.Looks(compose) {
		return nil, usagef("this is app-compose.json already: leave --from-docker-compose out")
	}
	return appcompose.Build(fields)
}

// compareWith lists the differences of another document from raw.
func (a *App) compareWith(name string, raw []byte, hash string) (*compared, error) {
	other, err := a.input(name)
	if err != nil {
		return nil, err
	}
	out := &compared{File: name, ComposeHash: appcompose.Hash(other), Same: bytes.Equal(raw, other), Fields: []diff.Change{}}
	if out.Same != (out.ComposeHash == hash) {
		return nil, fmt.Errorf("%s: the hashes disagree with the bytes", name)
	}
	before, err := appcompose.Fieldset(raw)
	if err != nil {
		return nil, err
	}
	after, err := appcompose.Fieldset(other)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if out.Fields, err = diff.Compare(before, after); err != nil {
		return nil, err
	}
	out.SameMeaning = len(out.Fields) == 0
	for out.FirstByte < min(len(raw), len(other)) && raw[out.FirstByte] == other[out.FirstByte] {
		out.FirstByte++
	}
	return out, nil
}

func (h hashed) picture(s render.Style) string {
	var b strings.Builder
	b.WriteString(s.Fields(
		render.Field{Name: "compose hash", Value: render.T(h.ComposeHash, render.Good)},
		render.Field{Name: "app id", Value: render.C(h.AppID)},
		render.Field{Name: "mr_config_id v1", Value: render.C(h.MRConfigIDV1)},
		render.Field{Name: "mr_config_id v2", Value: render.C(h.MRConfigIDV2)},
		render.Field{Name: "key provider", Value: render.C(h.KeyProvider)},
		render.Field{Name: "bytes", Value: render.C(fmt.Sprint(h.Bytes))},
	))
	b.WriteString(render.Warnings(s, h.Warnings))
	if c := h.Compared; c != nil {
		switch {
		case c.Same:
			fmt.Fprintf(&b, "%s has the same bytes\n", c.File)
		case c.SameMeaning:
			fmt.Fprintf(&b, "%s has hash %s: the same fields in other bytes (white space, key order or escapes), from byte %d on\n", c.File, c.ComposeHash, c.FirstByte)
		default:
			fmt.Fprintf(&b, "%s has hash %s:\n%s", c.File, c.ComposeHash, render.Diff(s, c.Fields))
		}
	}
	return b.String()
}
