package command

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"cadre.dev/cli/kmsauth"
	"cadre.dev/client"
)

func (a *App) kmsAuthCommand() *cobra.Command {
	listen, static := "127.0.0.1:8001", "kms-auth.json"
	c := &cobra.Command{
		Use: "kms-auth", Short: "Answer the key service of own hosts: which boots get their keys", Args: cobra.NoArgs,
		Long: `Serves the authorisation webhook of dstack-kms ([core.auth_api.webhook] of its kms.toml)
until interrupted. The key service asks before it gives a boot the keys of its app and of
its disk. The static file answers about OS images, key services, the gateway and the
coordinators; the coordinators answer about every other app, by the policy of its slots. A
revision that is revoked or below the floor therefore gets no keys.

The static file and the context are read again at each request. A request without an answer
is denied, with its reason. The log on standard error has a line for each decision.

The webhook has no access control: listen where only the key service reaches it. A process
that answers in its place decides about keys, so run it where you would keep them.`,
		Example: "  cadre kms-auth --static /etc/cadre/kms-auth.json\n  cadre kms-auth --listen 10.0.0.5:8001 --static /etc/cadre/kms-auth.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := kmsauth.Read(static); err != nil {
				return err
			}
			at, err := client.Path(a.context)
			if err != nil && a.context != "" {
				return err
			}
			l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			log := slog.New(slog.NewTextHandler(a.Err, nil))
			log.Info("answering the key service", "url", "http://"+l.Addr().String(), "static", static, "context", at)
			return (&kmsauth.Server{Static: static, Ask: kmsauth.Coordinators(a.context, a.Dial), Log: log}).Serve(cmd.Context(), l)
		},
	}
	c.Flags().StringVar(&listen, "listen", listen, "address and port")
	c.PersistentFlags().StringVar(&static, "static", static, "file with what boots without a question to the coordinators")
	c.AddCommand(a.kmsAuthInit(&static))
	return c
}

func (a *App) kmsAuthInit(static *string) *cobra.Command {
	var images, keyServices, added []string
	var withContext bool
	var appID string
	c := &cobra.Command{
		Use: "init", Short: "Write the static file, or add to it", Args: cobra.NoArgs,
		Long: `Writes the static file with the given OS images and key services, or adds them to the file
that is there. With --coordinators the app and the compose hashes of the coordinators come
from the context, and --app and --compose-hash name them without one. ` + "`cadre cluster create`" + ` and ` + "`cadre cluster upgrade`" + ` add them too, if the
cluster file names the file as kms_auth_file: it has to be the very file that the webhook
reads, because a copy on another machine changes no decision.`,
		Example: "  cadre kms-auth init --static kms-auth.json --os-image $(cat images/dstack-0.5.11/digest.txt)\n  cadre --context demo kms-auth init --coordinators --static kms-auth.json",
		RunE: func(*cobra.Command, []string) error {
			app, hashes := appID, added
			switch {
			case (app == "") != (len(hashes) == 0):
				return usagef("--app and --compose-hash: give both")
			case withContext && app != "":
				return usagef("--coordinators and --app: give one of the two")
			case withContext:
				known, at, err := a.load()
				if err != nil {
					return err
				}
				if app, hashes = known.CoordinatorAppID, known.CoordinatorComposeHashes; len(hashes) == 0 {
					return fmt.Errorf("context %s names no compose hash of the coordinators: `cadre cluster create FILE` notes it before it makes the first one", at)
				}
			}
			f, err := kmsauth.Init(*static, app, hashes, images, keyServices)
			if err != nil {
				return err
			}
			a.say(fmt.Sprintf("%s allows %d OS images, %d key services and %d apps; every other app is asked at the coordinators", *static, len(f.OSImages), len(f.KMS.MRAggregated), len(f.Apps)))
			return nil
		},
	}
	c.Flags().StringArrayVar(&images, "os-image", nil, "digest of a guest image (its digest.txt); may be repeated")
	c.Flags().StringArrayVar(&keyServices, "kms-measurement", nil, "aggregated measurement (mrAggregated) of a key service; may be repeated")
	c.Flags().BoolVar(&withContext, "coordinators", false, "add the coordinators of the context")
	c.Flags().StringVar(&appID, "app", "", "app to which --compose-hash is added")
	c.Flags().StringArrayVar(&added, "compose-hash", nil, "compose hash that the app may boot with; may be repeated")
	return c
}
