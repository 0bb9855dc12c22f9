# What every image depends on. Another value here is another digest.
toolchain = "go1.26.8" # builds every program
version   = "dev"      # the tag, and what our programs say of themselves
suite     = "bookworm" # the Debian release that locks are made from
python    = "3.11"     # that release's Python
