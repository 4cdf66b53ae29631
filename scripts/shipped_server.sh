# For scripts to source, from the root: serve_shipped PORT [OPTIONS] serves the shipped model until
# the script ends, and returns once it answers.
serve_shipped() {
  local port=$1
  build/rose serve models/rosebud --port "$port" --access-log off "${@:2}" &
  server=$!
  trap 'kill $server' EXIT
  ready() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /health HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3 | grep -q ' 200 '
  }
  until (ready) 2>/dev/null; do
    kill -0 $server  # ends the script if the server did
    sleep 0.2
  done
}
