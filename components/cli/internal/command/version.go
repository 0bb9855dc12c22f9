package command

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
)

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show this program's version and the coordinators'", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := map[string]string{"client": a.version()}
			// The coordinators are asked if there are any; their absence is no error here.
			_ = a.withClient(func(cl *client.Client) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
				defer cancel()
				info, err := cl.Cluster(ctx)
				if err == nil {
					out["coordinator"], out["cluster"] = info.GetVersion(), info.GetCluster()
				}
				return err
			})
			return a.show(out, func(render.Style) string {
				text := "cadre " + out["client"] + "\n"
				if v := out["coordinator"]; v != "" {
					text += fmt.Sprintf("coordinators of %s: %s\n", out["cluster"], v)
				}
				return text
			})
		},
	}
}

func (a *App) version() string {
	if a.Version != "" {
		return a.Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return format.Short(s.Value)
		}
	}
	return info.Main.Version
}
