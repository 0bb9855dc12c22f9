package appcompose

// InitScript is the init_script of every document that Cadre renders and accepts. The guest keeps
// the container engine's state on the data disk. The engine restores the previous boot's containers
// by their restart policy, before anything reads the compose file. Without this script the
// containers of an earlier Revision run in a CVM that measured the next one.
//
// dstack sources the text in the bash that prepares the guest, after the data disk is mounted and
// before the engine starts, in guests from 0.5.5 on. A command that fails ends the preparation, and
// the guest boots again: it fails closed. The subshell keeps the guest's working directory. Images
// and volumes stay. The containers go first: after a power cut during the script nothing is
// restored, and the next boot removes the remains. A layer's name is read from the disk, so it is
// used only where it cannot lead elsewhere.
//
// The bytes are measured: an edit changes the compose hash of every Revision.
const InitScript = `# Cadre: nothing of an earlier boot runs under this measurement.
(
	set -eu
	cd /var/lib/docker
	rm -rf containers
	for mount in image/overlay2/layerdb/mounts/*; do
		for file in "$mount/mount-id" "$mount/init-id"; do
			[ -f "$file" ] || continue
			layer=$(cat "$file")
			case "$layer" in '' | *[!0-9a-z-]*) continue ;; esac
			if [ -f "overlay2/$layer/link" ]; then
				link=$(cat "overlay2/$layer/link")
				case "$link" in '' | *[!0-9A-Z]*) ;; *) rm -f "overlay2/l/$link" ;; esac
			fi
			rm -rf "overlay2/$layer"
		done
		rm -rf "$mount"
	done
)
`
