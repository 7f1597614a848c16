#!/usr/bin/env bash
# Installs the Debian packages of system_packages.txt that are missing. Needs root, or sudo.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
while read -r package; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done < system_packages.txt
if ((${#missing[@]} == 0)); then exit 0; fi
echo "installing: ${missing[*]}"
run=()
if (($(id -u) != 0)); then run=(sudo); fi
"${run[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
