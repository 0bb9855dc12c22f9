// Package declared reads which commands a measured compose text lets the agent run, and where:
//
//	services:
//	  cadre:
//	    volumes: [exec-db:/run/cadre-exec/db, ...]
//	  db:
//	    command: [/etc/cadre/exec.sh, --, postgres]
//	    configs: [{ source: exec, target: /etc/cadre/exec.sh, mode: 0555 }]
//	    volumes: [exec-db:/run/cadre-exec, ...]
//	    x-cadre:
//	      exec:
//	        drain: [/usr/local/bin/drain, --now]
//	      commands:
//	        vacuum: [vacuumdb, --all]
//	      logs: true
//	volumes:
//	  exec-db:
//	    driver_opts: { type: tmpfs, device: tmpfs }
//	configs:
//	  exec:
//	    content: | # Script
//
// Hooks and checks run the commands of exec, operators those of commands; logs opens the service's
// output to operators. A caller names service and command; only the measured text defines the command, so that unmeasured
// input chooses no word of it. The volume ensures that a service takes commands only from the
// agent: this package checks the volume, too.
package declared
