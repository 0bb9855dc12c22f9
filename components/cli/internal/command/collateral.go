package command

import (
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/attest"
	"cadre.dev/attest/collateral"
	"cadre.dev/cli/internal/render"
)

// collateralInfo is the printed content of a bundle, also the schema of -o json.
type collateralInfo struct {
	File       string    `json:"file"`
	FMSPC      string    `json:"fmspc"`
	IssuedAt   time.Time `json:"issued_at"`
	ValidUntil time.Time `json:"valid_until"`
	TCB        uint32    `json:"tcb_evaluation"`
	QE         uint32    `json:"qe_evaluation"`
	SHA256     string    `json:"sha256"`
	Simulated  bool      `json:"simulated"`
	// Problem is why a coordinator would not use it now; empty: it would.
	Problem string `json:"problem,omitempty"`
}

func (a *App) collateralCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "collateral", Short: "Collateral bundles for coordinators without a way to Intel's service",
		Long: `Collateral says whether a machine is patched and its certificate still counts. It is
signed by Intel and ends within weeks. Coordinators fetch it themselves where the trust
file names a service (collateral.pccs_url); others read bundles from
collateral.bundle_path, which these commands make and check.`,
	}
	c.AddCommand(a.collateralFetch(), a.collateralShow())
	return c
}

var fmspcForm = regexp.MustCompile(`^[0-9a-f]{12}$`)

func (a *App) collateralFetch() *cobra.Command {
	var url, file, root string
	c := &cobra.Command{
		Use: "fetch FMSPC", Short: "Fetch the collateral of a family of machines into a bundle file", Args: cobra.ExactArgs(1),
		Long: `FMSPC names the family, 12 hex digits: ` + "`cadre admission explain`" + ` shows it, and the log of
a coordinator that lacks collateral names it.

All signatures and dates are checked before the file is written.`,
		Example: "  cadre collateral fetch 90c06f000000 --file 90c06f000000.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !fmspcForm.MatchString(args[0]) {
				return usagef("FMSPC %q: want 12 lower-case hex digits, e.g. 90c06f000000", args[0])
			}
			source, err := collateral.NewPCCS(collateral.PCCSConfig{URL: url})
			if err != nil {
				return usageError{err}
			}
			defer source.Close()
			bundle, err := source.Bundle(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("fetch collateral from %s: %w", url, err)
			}
			info, err := a.judgeBundle(bundle, root)
			if err != nil {
				return err
			}
			if info.Problem != "" {
				return fmt.Errorf("what %s gave cannot be used: %s", url, info.Problem)
			}
			if info.FMSPC != args[0] {
				return fmt.Errorf("%s gave the collateral of family %s, asked for %s", url, info.FMSPC, args[0])
			}
			if info.File = file; info.File == "" {
				info.File = args[0] + ".json"
			}
			text, err := bundle.Encode()
			if err != nil {
				return err
			}
			if err := replace(info.File, text); err != nil {
				return err
			}
			return a.showCollateral(info)
		},
	}
	c.Flags().StringVar(&url, "pccs", collateral.IntelURL, "service to fetch from: Intel's, or a PCCS")
	c.Flags().StringVar(&file, "file", "", "file to write (default FMSPC.json)")
	c.Flags().StringVar(&root, "root", "", "PEM `file` of another root that may have signed (simulated machines)")
	return c
}

func (a *App) collateralShow() *cobra.Command {
	var root string
	c := &cobra.Command{
		Use: "show FILE", Short: "Check a bundle's signatures and dates, and say until when it serves", Args: cobra.ExactArgs(1),
		Long:              "The exit code is 1 when a coordinator would not use the bundle now.",
		Example:           "  cadre collateral show 90c06f000000.json",
		ValidArgsFunction: completeFiles("json"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := a.input(args[0])
			if err != nil {
				return err
			}
			bundle, err := collateral.ParseBundle(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			info, err := a.judgeBundle(bundle, root)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			info.File = args[0]
			if err := a.showCollateral(info); err != nil || info.Problem == "" {
				return err
			}
			return silent{ExitError}
		},
	}
	c.Flags().StringVar(&root, "root", "", "PEM `file` of another root that may have signed (simulated machines)")
	return c
}

// judgeBundle checks signatures, and reports dates as the problem.
func (a *App) judgeBundle(b collateral.Bundle, rootFile string) (collateralInfo, error) {
	var roots []byte
	if rootFile != "" {
		var err error
		if roots, err = os.ReadFile(rootFile); err != nil {
			return collateralInfo{}, fmt.Errorf("--root: %w", err)
		}
	}
	set, simulated, err := attest.OpenBundle(b, roots)
	if err != nil {
		return collateralInfo{}, err
	}
	mark := set.Mark()
	info := collateralInfo{
		FMSPC: set.FMSPC(), IssuedAt: mark.IssuedAt, ValidUntil: set.ValidUntil(), TCB: mark.TCBEvaluation, QE: mark.QEEvaluation,
		SHA256: fmt.Sprintf("%x", set.Digest()), Simulated: simulated,
	}
	if err := set.Fresh(a.now(), 0); err != nil {
		info.Problem = err.Error()
	}
	return info, nil
}

func (a *App) showCollateral(info collateralInfo) error {
	if a.output == "json" {
		return a.json(info)
	}
	signed := "Intel"
	if info.Simulated {
		signed = "SIMULATED"
	}
	fields := []render.Field{
		{Name: "file", Value: render.C(info.File)}, {Name: "family", Value: render.C(info.FMSPC)}, {Name: "signed by", Value: render.C(signed)},
		{Name: "issued", Value: render.C(info.IssuedAt.UTC().Format(time.RFC3339))}, {Name: "valid until", Value: render.C(info.ValidUntil.UTC().Format(time.RFC3339))},
		{Name: "evaluation", Value: render.C(fmt.Sprintf("TCB %d, QE %d", info.TCB, info.QE))}, {Name: "sha256", Value: render.C(info.SHA256)},
	}
	if info.Problem != "" {
		fields = append(fields, render.Field{Name: "problem", Value: render.T(info.Problem, render.Bad)})
	}
	a.print(a.style().Fields(fields...))
	return nil
}
