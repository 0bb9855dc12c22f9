package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/osimage"
	"cadre.dev/cli/internal/render"
)

// measuredImage is the result of `cadre image measure`, also the schema of -o json.
type measuredImage struct {
	Version   string `json:"version,omitempty"`
	ImageHash string `json:"os_image_hash,omitempty"`
	MemoryMB  uint64 `json:"memory_mb"`
	QEMU      string `json:"qemu"`
	osimage.Measured
	Warnings []string `json:"warnings,omitempty"`
}

func (a *App) imageCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "image", Short: "Measurements of guest images, for the trust file",
		Long: `A trust file names each guest image with what it measures: MRTD and RTMR0 to RTMR2. These
commands compute the values from a release of dstack, and list those that others published.`,
	}
	c.AddCommand(a.imageMeasure(), a.imageKnown())
	return c
}

func (a *App) imageMeasure() *cobra.Command {
	var memory uint64
	var qemu, evidence string
	c := &cobra.Command{
		Use: "measure FOLDER", Short: "Compute registers from the unpacked release of a guest image", Args: cobra.ExactArgs(1),
		Long: `FOLDER is what a release of dstack unpacks to: metadata.json, firmware, kernel, initrd and
sha256sum.txt, against which the files are checked. No network is asked.

MRTD depends on the host's QEMU, RTMR1 on the VM's memory below 2.75 GiB. RTMR0 covers the
ACPI tables that QEMU makes for the whole shape of the VM. They are not computed: --evidence
takes their digests from the answer of a guest agent to GetQuote, of a VM of that shape. Those
digests are the word of that VM's host: take them from a host that you trust.`,
		Example: "  cadre image measure dstack-0.5.8 --memory-mb 65536 --qemu 8.2.2\n  cadre image measure dstack-0.5.8 --evidence quote.json -o json",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			shape := osimage.Shape{Memory: memory << 20, QEMU: qemu}
			if memory > 1<<30 {
				return usagef("--memory-mb %d: no VM has that much", memory)
			}
			if evidence != "" {
				raw, err := a.input(evidence)
				if err != nil {
					return err
				}
				e, err := osimage.ReadEvidence(raw)
				if err != nil {
					return fmt.Errorf("%s: %w", evidence, err)
				}
				shape.Tables, shape.SinglePass = &e.Tables, e.SinglePass
				if shape.Memory == 0 {
					shape.Memory = e.Memory
				}
				if shape.QEMU == "" {
					shape.QEMU = e.QEMU
				}
			}
			if shape.Memory == 0 || shape.QEMU == "" {
				return usagef("give --memory-mb and --qemu, or --evidence whose vm_config has both")
			}
			release, err := osimage.Open(args[0])
			if err != nil {
				return err
			}
			out := measuredImage{Version: release.Version, ImageHash: release.ImageHash, MemoryMB: shape.Memory >> 20, QEMU: shape.QEMU}
			if out.Measured, err = release.Measure(shape); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if out.RTMR0 == "" {
				out.Warnings = append(out.Warnings, "RTMR0 is not computed: give --evidence, or take it from dstack-mr of the same release of dstack")
			}
			if release.ImageHash == "" {
				out.Warnings = append(out.Warnings, "the folder has no sha256sum.txt: nothing says that these are the files of the release")
			}
			if release.Dev {
				out.Warnings = append(out.Warnings, "this is a development image, which lets its operator in: keep it out of a trust file for real work")
			}
			return a.show(out, out.picture)
		},
	}
	c.Flags().Uint64Var(&memory, "memory-mb", 0, "memory of the VM in MiB")
	c.Flags().StringVar(&qemu, "qemu", "", "version of the host's QEMU, such as 8.2.2")
	c.Flags().StringVar(&evidence, "evidence", "", "`file` with an answer of a guest agent to GetQuote: gives the ACPI digests, and the values of omitted flags")
	return c
}

func (m measuredImage) picture(s render.Style) string {
	var fields []render.Field
	for _, f := range [][2]string{
		{"version", m.Version}, {"os_image_hash", m.ImageHash}, {"memory", fmt.Sprintf("%d MiB", m.MemoryMB)}, {"QEMU", m.QEMU},
		{"mrtd", m.MRTD}, {"rtmr0", m.RTMR0}, {"rtmr1", m.RTMR1}, {"rtmr2", m.RTMR2},
	} {
		if f[1] != "" {
			fields = append(fields, render.Field{Name: f[0], Value: render.C(f[1])})
		}
	}
	for _, w := range m.Warnings {
		fields = append(fields, render.Field{Name: "warning", Value: render.T(w, render.Warn)})
	}
	return s.Fields(fields...)
}

func (a *App) imageKnown() *cobra.Command {
	return &cobra.Command{
		Use: "known", Short: "List values that public sources state, with each source", Args: cobra.NoArgs,
		Long: `Each value is what its source says. Compute the values of the image that you use as well, with
` + "`cadre image measure`" + `: the trust file is the root of trust.`,
		RunE: func(*cobra.Command, []string) error {
			table, err := osimage.Table()
			if err != nil {
				return err
			}
			return a.show(table, func(s render.Style) string {
				var out strings.Builder
				for _, k := range table {
					out.WriteString(s.Fields(
						render.Field{Name: "image", Value: render.C(k.Image)}, render.Field{Name: "os_image_hash", Value: render.C(k.ImageHash)},
						render.Field{Name: "shape", Value: render.C(fmt.Sprintf("%d vCPU, %d MiB, QEMU %s", k.VCPU, k.MemoryMB, k.QEMU))},
						render.Field{Name: "mrtd", Value: render.C(k.MRTD)}, render.Field{Name: "rtmr0", Value: render.C(k.RTMR0)},
						render.Field{Name: "rtmr1", Value: render.C(k.RTMR1)}, render.Field{Name: "rtmr2", Value: render.C(k.RTMR2)},
						render.Field{Name: "source", Value: render.C(k.Source)},
					) + "\n")
				}
				return out.String()
			})
		},
	}
}
