/*
 * The receiving side: opens watches, counts every delivery exactly, and keeps a histogram of write-to-watcher delays.
 *
 * One thread, one epoll. It understands only as much of each wire as it needs: HTTP/1.1 with chunks or a length, a WebSocket
 * as raw bytes behind its 101, HTTP/2 frames (also gRPC, whose messages are looked through like any other bytes). An
 * event is found by the marker in its object (see common.h), never by parsing JSON.
 *
 * The streams of a connection may each have a path of their own (`--path` again and again, each with what follows it).
 *
 * Exactness: watcher k is owed the sequences first + k % stride, first + k % stride + stride, … (its class). With a file of
 * classes, one number for each object that the writer writes in turn, it is owed those whose number its path has, or with `--until`
 * those of a range of numbers, which is the same for all paths that have one. Puts that are on
 * their way together are ordered by etcd, not by their sequence, so the first watcher of a class that sees a sequence
 * gives it the class's next position, and every watcher must see the positions 0, 1, 2, … A lower one is a repetition or
 * out of order, a higher one means that something is missing, and a watcher has everything when it has as many as were
 * written.
 *
 * Where others write than our writer, objects have no marker. With `--objects 1` the watches are protobuf, and each watcher
 * keeps the resource version of every object that it receives, for the caller to compare with what is in etcd. Such a
 * watcher recovers as a client does: where its path has another (`--again`), it asks for that one, which begins with a list, when
 * its version has expired or the stream ends, and a second after it was refused.
 *
 * Commands, one a line on stdin; each is answered by one line of JSON on stdout:
 *   mark                 forget the figures so far (not the sequences)
 *   report               the figures since the mark
 *   await SEQ MS         wait until every watcher has all its sequences below SEQ
 *   await-end MS         wait until every response has ended (lists)
 *   dump PATH            write the versions: for each watcher a u32 count and as many u64; a list's is marked by the top bit
 *   stall EVERY MS       every EVERY-th watcher's connection stops reading for MS
 * End of input ends the program.
 */
#include "common.h"

#ifdef WITH_TLS
#include <openssl/ssl.h>
#endif

enum { OPENING, TLS_OPENING, WAITING, STREAMING, CLOSED };
enum { H1_HEAD, H1_CHUNK_SIZE, H1_CHUNK, H1_CHUNK_END, H1_LENGTH, H1_RAW, H1_DONE };

typedef struct {
  uint64_t next; /* the position it waits for */
  uint64_t received, missing, repeated, consumed, bytes;
  uint64_t asked_ns;
  char carry[64]; /* a marker cut by the end of a span */
  uint8_t carried, answered, ok, ended, is_stalled_one;
  /* with --objects: */
  uint8_t is_live, is_listing, has_expired;
  uint32_t stream;   /* of its last request */
  uint64_t again_ns; /* when it asks again; 0: it does not */
  bytes frame;       /* of the watch, so far */
  bytes versions;
} watcher;

/* The watches of each connection, in turn. */
typedef struct {
  const char *path, *accept, *again; /* `{i}` is the watcher's number, `{c}` the connection's */
  uint32_t class, is_each;   /* its class; with is_each the first connection's, and one more for each further one */
  uint32_t until;            /* not 0: it is owed all classes from its own up to this one, which is not among them */
  uint32_t kind;
} watch_path;

typedef struct {
  int fd;
  uint8_t state, h1, stalled;
  uint32_t first, count; /* the watchers on it */
  uint64_t remaining;    /* bytes left of a chunk or a body */
  bytes head;            /* HTTP/1.1 header so far, or an HTTP/2 control frame so far */
  bytes out;             /* what the socket did not take yet */
  uint8_t frame[9];
  uint8_t frame_have;
  uint32_t frame_left, frame_stream;
  uint64_t consumed;
  bytes again; /* whose the streams after the first `count` are, one byte each */
#ifdef WITH_TLS
  SSL *ssl;
#endif
} connection;

static struct {
  int port, connections, streams, tls, h2, base64, burst, stride, receive_buffer, segment, retries, objects;
  uint64_t first;
  const char *method, *authority, *progress, *expect;
  watch_path path[128];
  uint32_t paths;
  const char *header[32];
  int headers;
  bytes body;
} option = {.connections = 1, .streams = 1, .burst = 128, .stride = 1, .method = "GET", .authority = "localhost"};

static watcher *watchers;
static connection *connections;
static int epoll_fd, opened, opening, closed_early, failed_status, refused, retried;
static uint32_t watcher_count, answered, ended, strays;
/* With --objects. Those asking will ask again; the others count requests: lists, 410, 429 and other failures. */
static uint32_t live, asking, relisted, expired, throttled, failed;
static uint64_t delivered, delivered_since, objects_since, bytes_since, reads_since, mark_ns, begin_ns, live_ns;
static volatile uint64_t *progress;
static histogram delays, durations;
static struct {
  uint32_t narrow, wide;
} *positions; /* by sequence - first; 0: not seen yet, else its position + 1, in its class and in the range of classes */
static uint64_t positions_room;
static uint32_t *class_length, *class_owed; /* positions given so far; positions that `await` waits for */
static uint32_t class_count;
static uint32_t wide_from, wide_until, wide_length, wide_owed; /* the range of classes of the paths with `--until` */
static uint32_t *object_class; /* of the n-th object of the writer's round, when there is a file of classes */
static uint64_t object_count;
static struct {
  const char *name;
  histogram delays;
} kinds[16]; /* delays are reported by kind of path */
static uint32_t kind_count;
static const char *needle = MAGIC;
static size_t needle_bytes = MAGIC_BYTES, mark_bytes = MARK_BYTES;
static char buffer[1 << 18];

/* what `await` waits for */
static uint64_t await_until_ns;
static int awaiting, awaiting_end, closing;
static uint64_t stall_until_ns;

#ifdef WITH_TLS
static SSL_CTX *tls_context;
#endif

static void say_status(const char *event) {
  printf("{\"event\":\"%s\",\"watchers\":%u,\"answered\":%u,\"ended\":%u,\"closedEarly\":%d,\"failedStatus\":%d,"
         "\"refused\":%d,\"retried\":%d,\"elapsedMs\":%.3f}\n",
         event, watcher_count, answered, ended, closed_early, failed_status, refused, retried,
         (double)(now_ns() - begin_ns) / 1e6);
  fflush(stdout);
}

static int decode_base64(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : 63;
}

#define NO_CLASS UINT32_MAX /* owed to nobody */

/* More paths than a connection has streams are those of several connections, in turn. */
static const watch_path *path_of(const watcher *w) {
  uint32_t index = (uint32_t)(w - watchers), streams = (uint32_t)option.streams;
  return &option.path[option.paths > streams ? index % option.paths : index % streams % option.paths];
}

static uint32_t class_of(const watcher *w) {
  uint32_t index = (uint32_t)(w - watchers);
  if (!object_class) return index % (uint32_t)option.stride;
  const watch_path *path = path_of(w);
  return path->is_each ? path->class + index / (uint32_t)option.streams : path->class;
}

static uint32_t class_of_sequence(uint64_t sequence) {
  return object_class ? object_class[sequence % object_count]
                      : (uint32_t)((sequence - option.first) % (uint64_t)option.stride);
}

/* Its position in the watcher's class; 0, which counts as a repetition, for an event that is not the watcher's. */
static uint64_t position_of(const watcher *w, uint64_t sequence) {
  uint64_t index = sequence - option.first;
  uint32_t class = class_of(w), is_wide = path_of(w)->until;
  uint32_t given = sequence < option.first ? NO_CLASS : class_of_sequence(sequence);
  int is_owed = is_wide ? given >= wide_from && given < wide_until : given == class;
  if (given == NO_CLASS || !is_owed || index > 1u << 30) {
    strays++;
    return 0;
  }
  if (index >= positions_room) {
    uint64_t room = (index + 1) * 2;
    positions = realloc(positions, room * sizeof *positions);
    if (!positions) die("realloc");
    memset(positions + positions_room, 0, (room - positions_room) * sizeof *positions);
    positions_room = room;
  }
  uint32_t *position = is_wide ? &positions[index].wide : &positions[index].narrow;
  if (!*position) *position = is_wide ? ++wide_length : ++class_length[class];
  return *position - 1;
}

static void take_mark(watcher *w, const char *at, uint64_t received_ns) {
  char plain[MARK_BYTES];
  if (option.base64) {
    for (size_t i = 0; i < MARK_BYTES / 3; i++) {
      uint32_t bits = 0;
      for (int k = 0; k < 4; k++) bits = bits << 6 | (uint32_t)decode_base64(at[i * 4 + (size_t)k]);
      plain[i * 3] = (char)(bits >> 16), plain[i * 3 + 1] = (char)(bits >> 8), plain[i * 3 + 2] = (char)bits;
    }
    at = plain;
  }
  uint64_t sequence = get_decimal(at + MAGIC_BYTES, SEQUENCE_DIGITS);
  uint64_t stamp = get_decimal(at + MAGIC_BYTES + SEQUENCE_DIGITS, STAMP_DIGITS);
  w->received++;
  delivered++;
  delivered_since++;
  uint64_t position = position_of(w, sequence);
  if (position < w->next) {
    w->repeated++;
    return;
  }
  w->missing += position - w->next;
  w->next = position + 1;
  if (w->is_stalled_one) return;
  uint64_t delay = received_ns > stamp ? received_ns - stamp : 0;
  histogram_add(&delays, delay);
  if (kind_count) histogram_add(&kinds[path_of(w)->kind].delays, delay);
}

static void set_live(watcher *w, int is_live) {
  if (w->is_live == is_live) return;
  w->is_live = (uint8_t)is_live;
  live += is_live ? 1 : UINT32_MAX;
  if (is_live) live_ns = now_ns();
}

/* A status, or one that a watch ends with. */
static void fail(watcher *w, int code) {
  w->has_expired = code == 410;
  if (code == 410) expired++;
  else if (code == 429) throttled++;
  else failed++;
  set_live(w, 0);
}

/* ---- objects of a protobuf watch ---- */

typedef struct {
  const uint8_t *at;
  size_t length;
} span;

static uint64_t take_varint(span *in) {
  uint64_t value = 0;
  for (int shift = 0; in->length; shift += 7) {
    uint8_t byte = *in->at++;
    in->length--;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  die("a varint is cut");
  return 0;
}

/* The first field of that number: a message or a string, or a number, which is all that has one; empty when there is none. */
static span part(span in, uint32_t number, uint64_t *value) {
  while (in.length) {
    uint64_t tag = take_varint(&in), length = 0, type = tag & 7, given = 0;
    if (type == 0) given = take_varint(&in);
    else length = type == 2 ? take_varint(&in) : type == 1 ? 8 : 4;
    if (length > in.length) die("a field is cut");
    if (tag >> 3 == number) {
      if (value) *value = given;
      return (span){in.at, length};
    }
    in.at += length, in.length -= length;
  }
  return (span){0};
}

static int is_text(span s, const char *text) { return s.length == strlen(text) && !memcmp(s.at, text, s.length); }

#define LISTED (1ull << 63)

static void take_object(watcher *w, span event) {
  static const char initial[] = "k8s.io/initial-events-end";
  span type = part(event, 1, NULL), raw = part(part(event, 2, NULL), 1, NULL);
  if (raw.length < 4) die("an object is not protobuf");
  raw.at += 4, raw.length -= 4; /* "k8s", 0 */
  span object = part(raw, 2, NULL);
  uint64_t version = 0, code = 0;
  if (is_text(type, "ERROR")) {
    part(object, 6, &code);
    fail(w, (int)code);
    return;
  }
  span metadata = part(object, 1, NULL), text = part(metadata, 6, NULL);
  for (size_t i = 0; i < text.length; i++) version = version * 10 + text.at[i] - '0';
  if (!is_text(type, "BOOKMARK")) {
    objects_since++;
  } else {
    if (!w->is_listing || !memmem(metadata.at, metadata.length, initial, sizeof initial - 1)) return;
    w->is_listing = 0;
    set_live(w, 1);
    version |= LISTED;
  }
  append(&w->versions, &version, sizeof version);
}

static void take_objects(watcher *w, const char *at, size_t length) {
  append(&w->frame, at, length);
  size_t done = 0;
  while (w->frame.length - done >= 4) {
    const uint8_t *frame = (const uint8_t *)w->frame.at + done;
    size_t size = (size_t)frame[0] << 24 | (size_t)frame[1] << 16 | (size_t)frame[2] << 8 | frame[3];
    if (w->frame.length - done - 4 < size) break;
    take_object(w, (span){frame + 4, size});
    done += 4 + size;
  }
  memmove(w->frame.at, w->frame.at + done, w->frame.length - done);
  w->frame.length -= done;
}

/* Looks for markers in a span of payload; one cut at its end is finished by the next span. */
static void look_through(watcher *w, const char *at, size_t length, uint64_t received_ns) {
  w->bytes += length;
  bytes_since += length;
  if (option.objects) take_objects(w, at, length);
  if (w->carried) {
    char joined[sizeof w->carry * 2];
    size_t take = length < mark_bytes ? length : mark_bytes;
    memcpy(joined, w->carry, w->carried);
    memcpy(joined + w->carried, at, take);
    char *found = memmem(joined, w->carried + take, needle, needle_bytes);
    if (found && found < joined + w->carried) {
      size_t begins = (size_t)(found - joined);
      if (begins + mark_bytes <= w->carried + take) {
        size_t used = begins + mark_bytes - w->carried;
        take_mark(w, found, received_ns);
        w->carried = 0;
        at += used, length -= used;
      } else { /* a very short span: keep all of it */
        size_t keep = w->carried + take - begins;
        memmove(w->carry, found, keep);
        w->carried = (uint8_t)keep;
        return;
      }
    } else {
      w->carried = 0;
    }
  }
  const char *end = at + length;
  while ((size_t)(end - at) >= needle_bytes) {
    const char *found = memmem(at, (size_t)(end - at), needle, needle_bytes);
    if (!found) break;
    if ((size_t)(end - found) < mark_bytes) {
      w->carried = (uint8_t)(end - found);
      memcpy(w->carry, found, w->carried);
      return;
    }
    take_mark(w, found, received_ns);
    at = found + mark_bytes;
  }
  /* a needle that only begins here: keep the tail from its first character */
  size_t tail = (size_t)(end - at) < needle_bytes - 1 ? (size_t)(end - at) : needle_bytes - 1;
  for (const char *p = end - tail; p < end; p++) {
    if (memcmp(p, needle, (size_t)(end - p)) == 0) {
      w->carried = (uint8_t)(end - p);
      memcpy(w->carry, p, w->carried);
      break;
    }
  }
}

static void watcher_answered(watcher *w, int ok) {
  if (w->answered) return;
  w->answered = 1;
  w->ok = (uint8_t)ok;
  answered++;
  if (!ok) failed_status++;
}

/* Whether it was refused, and asks again once the stream has ended. */
static int is_refused(watcher *w, int status) {
  if (status == 0 || status == 200 || !path_of(w)->again) return 0;
  fail(w, status);
  return 1;
}

static void watcher_ended(watcher *w) {
  if (w->ended) return;
  set_live(w, 0);
  if (path_of(w)->again && connections[(w - watchers) / option.streams].state != CLOSED) {
    if (!w->again_ns) asking++;
    w->again_ns = now_ns() + (w->has_expired ? 0 : 1000000000);
    return;
  }
  w->ended = 1;
  ended++;
  if (w->answered && w->ok) histogram_add(&durations, now_ns() - w->asked_ns);
}

static void close_connection(connection *c, int is_early) {
  if (c->state == CLOSED) return;
  if (c->state == OPENING || c->state == TLS_OPENING || c->state == WAITING) opening--;
  c->state = CLOSED;
  for (uint32_t i = 0; i < c->count; i++) {
    if (!watchers[c->first + i].ended) {
      closed_early += is_early;
      watcher_ended(&watchers[c->first + i]);
    }
  }
#ifdef WITH_TLS
  if (c->ssl) SSL_free(c->ssl), c->ssl = NULL;
#endif
  close(c->fd);
}

/* ---- bytes in and out, plain or TLS: >0 bytes, 0 the end, -1 later, -2 broken ---- */

static ssize_t take_in(connection *c, char *into, size_t room) {
#ifdef WITH_TLS
  if (c->ssl) {
    int n = SSL_read(c->ssl, into, (int)room);
    if (n > 0) return n;
    int error = SSL_get_error(c->ssl, n);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return -1;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -2;
  }
#endif
  ssize_t n = recv(c->fd, into, room, 0);
  if (n >= 0) return n;
  return errno == EAGAIN || errno == EINTR ? -1 : -2;
}

static void flush_out(connection *c) {
  size_t done = 0;
  while (done < c->out.length) {
    ssize_t n;
#ifdef WITH_TLS
    if (c->ssl) {
      n = SSL_write(c->ssl, c->out.at + done, (int)(c->out.length - done));
    } else
#endif
      n = send(c->fd, c->out.at + done, c->out.length - done, MSG_NOSIGNAL);
    if (n <= 0) break;
    done += (size_t)n;
  }
  memmove(c->out.at, c->out.at + done, c->out.length - done);
  c->out.length -= done;
  struct epoll_event want = {.events = EPOLLIN | (c->out.length ? EPOLLOUT : 0), .data.ptr = c};
  if (!c->stalled) epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &want);
}

/* ---- requests ---- */

/* `{i}` in a path is the watcher's number, and `{c}` that of its connection, from 0. */
static void fill_path(char *to, size_t room, const char *path, uint32_t index) {
  size_t length = 0;
  for (const char *at = path; *at && length + 12 < room;) {
    if (!strncmp(at, "{i}", 3) || !strncmp(at, "{c}", 3)) {
      length += (size_t)sprintf(to + length, "%u", at[1] == 'i' ? index : index / (uint32_t)option.streams);
      at += 3;
    } else {
      to[length++] = *at++;
    }
  }
  to[length] = 0;
}

static void send_h2_request(connection *c, uint32_t index, const char *from, uint32_t stream) {
  char path[2048], line[4096];
  watchers[index].stream = stream;
  fill_path(path, sizeof path, from, index);
  const char *accept = path_of(&watchers[index])->accept;
  bytes block = {0};
  hpack_header(&block, ":method", option.method);
  hpack_header(&block, ":scheme", option.tls ? "https" : "http");
  hpack_header(&block, ":path", path);
  hpack_header(&block, ":authority", option.authority);
  if (accept) hpack_header(&block, "accept", accept);
  for (int h = 0; h < option.headers; h++) {
    snprintf(line, sizeof line, "%s", option.header[h]);
    char *colon = strchr(line, ':');
    *colon = 0;
    for (char *p = line; *p; p++) *p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
    hpack_header(&block, line, colon + 2);
  }
  h2_frame(&c->out, (uint32_t)block.length, H2_HEADERS,
           (uint8_t)(H2_END_HEADERS | (option.body.length ? 0 : H2_END_STREAM)), stream);
  append(&c->out, block.at, block.length);
  if (option.body.length) { /* the request stays open: a gRPC watch is a stream both ways */
    h2_frame(&c->out, (uint32_t)option.body.length, H2_DATA, 0, stream);
    append(&c->out, option.body.at, option.body.length);
  }
  free(block.at);
}

/* Those whose time has come. */
static void ask_again(void) {
  uint64_t now = now_ns();
  for (uint32_t i = 0; i < watcher_count && asking; i++) {
    watcher *w = &watchers[i];
    if (!w->again_ns || w->again_ns > now) continue;
    w->again_ns = 0;
    asking--;
    connection *c = &connections[i / (uint32_t)option.streams];
    if (c->state == CLOSED) continue;
    uint8_t which = (uint8_t)(i - c->first);
    append(&c->again, &which, 1);
    w->frame.length = w->has_expired = 0;
    w->is_listing = 1;
    relisted++;
    send_h2_request(c, i, path_of(w)->again, (uint32_t)(c->count + c->again.length) * 2 - 1);
    flush_out(c);
  }
}

static void send_requests(connection *c) {
  char path[2048], line[4096];
  if (option.h2) h2_preface(&c->out);
  for (uint32_t i = 0; i < c->count; i++) {
    const watch_path *asked = path_of(&watchers[c->first + i]);
    const char *accept = asked->accept;
    if (option.h2) {
      send_h2_request(c, c->first + i, asked->path, i * 2 + 1);
    } else {
      fill_path(path, sizeof path, asked->path, c->first + i);
      snprintf(line, sizeof line, "%s %s HTTP/1.1\r\nHost: %s\r\n", option.method, path, option.authority);
      append_text(&c->out, line);
      if (accept) append_text(&c->out, "Accept: "), append_text(&c->out, accept), append_text(&c->out, "\r\n");
      for (int h = 0; h < option.headers; h++) append_text(&c->out, option.header[h]), append_text(&c->out, "\r\n");
      if (option.body.length) {
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", option.body.length);
        append_text(&c->out, line);
      }
      append_text(&c->out, "\r\n");
      append(&c->out, option.body.at, option.body.length);
    }
    watchers[c->first + i].asked_ns = now_ns();
  }
  c->state = WAITING;
  flush_out(c);
}

/* ---- HTTP/1.1 ---- */

static void begin_body(connection *c, watcher *w) {
  append(&c->head, "", 1);
  int status = atoi(c->head.at + 9);
  int is_expected = !option.expect || strcasestr(c->head.at, option.expect);
  watcher_answered(w, is_expected && (status == 200 || status == 101));
  const char *length = strcasestr(c->head.at, "\r\ncontent-length:");
  if (status == 101) c->h1 = H1_RAW;
  else if (strcasestr(c->head.at, "\r\ntransfer-encoding: chunked")) c->h1 = H1_CHUNK_SIZE;
  else if (length) c->h1 = H1_LENGTH, c->remaining = strtoull(length + 17, NULL, 10);
  else c->h1 = H1_RAW;
  if (c->h1 == H1_LENGTH && c->remaining == 0) c->h1 = H1_DONE;
  free(c->head.at);
  c->head = (bytes){0};
}

static void take_h1(connection *c, const char *at, size_t length, uint64_t received_ns) {
  watcher *w = &watchers[c->first];
  const char *end = at + length;
  while (at < end) {
    size_t left = (size_t)(end - at), take;
    switch (c->h1) {
      case H1_HEAD: {
        size_t before = c->head.length;
        append(&c->head, at, left);
        char *stop = memmem(c->head.at, c->head.length, "\r\n\r\n", 4);
        if (!stop) return;
        size_t used = (size_t)(stop - c->head.at) + 4 - before;
        c->head.length = before + used;
        at += used;
        begin_body(c, w);
        break;
      }
      case H1_CHUNK_SIZE:
        for (; at < end; at++) {
          char d = *at;
          if (d == '\n') {
            at++;
            c->h1 = c->remaining ? H1_CHUNK : H1_DONE;
            break;
          }
          if (d == '\r') continue;
          c->remaining = c->remaining * 16 + (uint64_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
        }
        break;
      case H1_CHUNK:
      case H1_LENGTH:
        take = left < c->remaining ? left : (size_t)c->remaining;
        look_through(w, at, take, received_ns);
        at += take;
        c->remaining -= take;
        if (c->remaining == 0) {
          if (c->h1 == H1_LENGTH) c->h1 = H1_DONE;
          else c->h1 = H1_CHUNK_END, c->remaining = 2;
        }
        break;
      case H1_CHUNK_END:
        at++;
        if (--c->remaining == 0) c->h1 = H1_CHUNK_SIZE;
        break;
      case H1_RAW:
        look_through(w, at, left, received_ns);
        at = end;
        break;
      default:
        at = end;
    }
  }
  if (c->h1 == H1_DONE) watcher_ended(w);
}

/* ---- HTTP/2 ---- */

/* NULL when the frame is not of its last request. */
static watcher *watcher_of(const connection *c) {
  uint32_t nth = (c->frame_stream - 1) / 2;
  watcher *w = &watchers[c->first + (nth < c->count ? nth : (uint8_t)c->again.at[nth - c->count])];
  return w->stream == c->frame_stream ? w : NULL;
}

/* `:status` comes first: an index of the static table, or its index 8 as a name and three digits, plain or in Huffman's code. */
static int status_of(const char *block, size_t length) {
  static const int indexed[] = {200, 204, 206, 304, 400, 404, 500};
  const uint8_t *at = (const uint8_t *)block, *end = at + length;
  while (at < end && *at >> 5 == 1) at++; /* a table size update */
  if (at < end && *at >= 0x88 && *at <= 0x8e) return indexed[*at - 0x88];
  if (end - at < 5 || (*at != 0x48 && *at != 0x08 && *at != 0x18)) return 0;
  if (at[1] == 3) return (at[2] - '0') * 100 + (at[3] - '0') * 10 + at[4] - '0';
  uint32_t bits = (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4], used = 8;
  int status = 0;
  for (int digit = 0; digit < 3; digit++) { /* 0, 1 and 2 have five bits, the others six, from 25 on */
    uint32_t five = bits << used >> 27, six = bits << used >> 26;
    status = status * 10 + (int)(five < 3 ? five : six - 22);
    used += five < 3 ? 5 : 6;
  }
  return status;
}

static void take_control(connection *c) {
  uint8_t type = c->frame[3], flags = c->frame[4];
  watcher *w = c->frame_stream ? watcher_of(c) : NULL;
  if (type == H2_SETTINGS && !(flags & H2_ACK)) {
    h2_frame(&c->out, 0, H2_SETTINGS, H2_ACK, 0);
    flush_out(c);
  } else if (type == H2_PING && !(flags & H2_ACK)) {
    h2_frame(&c->out, 8, H2_PING, H2_ACK, 0);
    append(&c->out, c->head.at, 8);
    flush_out(c);
  } else if (type == H2_HEADERS && w) {
    int status = status_of(c->head.at, c->head.length);
    if (!is_refused(w, status)) {
      watcher_answered(w, status == 200);
      if (option.objects && status == 200 && !w->is_listing) set_live(w, 1);
    }
    if (flags & H2_END_STREAM) watcher_ended(w);
  } else if (type == H2_RST && w) {
    closed_early++;
    watcher_ended(w);
  } else if (type == H2_GOAWAY) {
    close_connection(c, 1);
  }
  c->head.length = 0;
}

static void take_h2(connection *c, const char *at, size_t length, uint64_t received_ns) {
  const char *end = at + length;
  while (at < end && c->state != CLOSED) {
    if (c->frame_have < 9) {
      c->frame[c->frame_have++] = (uint8_t)*at++;
      if (c->frame_have < 9) continue;
      c->frame_left = (uint32_t)c->frame[0] << 16 | (uint32_t)c->frame[1] << 8 | c->frame[2];
      c->frame_stream = ((uint32_t)c->frame[5] << 24 | (uint32_t)c->frame[6] << 16 | (uint32_t)c->frame[7] << 8 |
                         c->frame[8]) & 0x7fffffff;
    }
    size_t take = (size_t)(end - at) < c->frame_left ? (size_t)(end - at) : c->frame_left;
    if (c->frame[3] == H2_DATA) {
      watcher *w = watcher_of(c);
      if (w) look_through(w, at, take, received_ns), w->consumed += take;
      c->consumed += take;
    } else {
      append(&c->head, at, take);
    }
    at += take;
    c->frame_left -= (uint32_t)take;
    if (c->frame_left) continue;
    c->frame_have = 0;
    if (c->frame[3] != H2_DATA) {
      take_control(c);
      continue;
    }
    watcher *w = watcher_of(c);
    if (w && c->frame[4] & H2_END_STREAM) watcher_ended(w);
    if (c->consumed > 1u << 28) {
      h2_window(&c->out, 0, (uint32_t)c->consumed);
      c->consumed = 0;
      flush_out(c);
    }
    if (w && w->consumed > 1u << 28) {
      h2_window(&c->out, c->frame_stream, (uint32_t)w->consumed);
      w->consumed = 0;
      flush_out(c);
    }
  }
}

/* ---- the life of a connection ---- */

static void open_connection(connection *c) {
  c->fd = connect_loopback(option.port, option.receive_buffer, option.segment);
  c->state = OPENING;
  opening++;
  if (c->fd < 0) {
    refused++;
    c->fd = dup(0);
    close_connection(c, 1);
    return;
  }
  struct epoll_event want = {.events = EPOLLOUT, .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &want);
}

static void open_next(void) {
  connection *c = &connections[opened];
  c->first = (uint32_t)(opened * option.streams);
  c->count = (uint32_t)option.streams;
  opened++;
  open_connection(c);
}

/* One that was refused before anything was answered is opened again, as any client would do. */
static void refuse(connection *c) {
  if (retried >= option.retries) {
    refused++;
    close_connection(c, 1);
    return;
  }
  retried++;
  opening--;
#ifdef WITH_TLS
  if (c->ssl) SSL_free(c->ssl), c->ssl = NULL;
#endif
  close(c->fd);
  open_connection(c);
}

static void advance_opening(connection *c) {
  if (c->state == OPENING) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
      refuse(c);
      return;
    }
    c->state = TLS_OPENING;
#ifdef WITH_TLS
    if (option.tls) {
      c->ssl = SSL_new(tls_context);
      SSL_set_fd(c->ssl, c->fd);
      SSL_set_connect_state(c->ssl);
    }
#endif
  }
#ifdef WITH_TLS
  if (c->ssl) {
    int n = SSL_do_handshake(c->ssl);
    if (n != 1) {
      int error = SSL_get_error(c->ssl, n);
      struct epoll_event want = {.events = error == SSL_ERROR_WANT_WRITE ? EPOLLOUT : EPOLLIN, .data.ptr = c};
      if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &want);
      } else {
        refuse(c);
      }
      return;
    }
  }
#endif
  send_requests(c);
}

static int has_answer(const connection *c) {
  for (uint32_t i = 0; i < c->count; i++)
    if (!watchers[c->first + i].answered) return 0;
  return 1;
}

static int has_any_answer(const connection *c) {
  for (uint32_t i = 0; i < c->count; i++)
    if (watchers[c->first + i].answered) return 1;
  return 0;
}

static void receive(connection *c) {
  for (int turns = 0; turns < 4; turns++) { /* TLS records are small: take a few, then let others have a turn */
    ssize_t n = take_in(c, buffer, sizeof buffer);
    if (n == -1) return;
    if (n <= 0 && c->state == WAITING && !has_any_answer(c)) {
      c->out.length = c->head.length = c->frame_have = 0;
      c->again.length = 0;
      refuse(c);
      return;
    }
    if (n <= 0) {
      if (!option.h2 && c->h1 == H1_RAW && n == 0) watcher_ended(&watchers[c->first]);
      close_connection(c, 1);
      return;
    }
    reads_since++;
    uint64_t at = now_ns();
    if (option.h2) take_h2(c, buffer, (size_t)n, at);
    else take_h1(c, buffer, (size_t)n, at);
    if (progress) *progress = delivered;
    if (c->state == CLOSED) return;
    if (c->state == WAITING && has_answer(c)) {
      c->state = STREAMING;
      opening--;
    }
    if (!option.tls) return;
  }
}

/* ---- commands ---- */

static void report(const char *event) {
  uint64_t missing = 0, repeated = 0, received = 0, total = 0;
  for (uint32_t i = 0; i < watcher_count; i++) {
    missing += watchers[i].missing;
    repeated += watchers[i].repeated;
    received += watchers[i].received;
    total += watchers[i].bytes;
  }
  printf("{\"event\":\"%s\",\"seconds\":%.6f,\"deliveries\":%llu,\"bytes\":%llu,\"reads\":%llu,\"received\":%llu,"
         "\"missing\":%llu,\"repeated\":%llu,\"totalBytes\":%llu,\"answered\":%u,\"ended\":%u,\"closedEarly\":%d,"
         "\"failedStatus\":%d,\"refused\":%d,\"strays\":%u,\"objects\":%llu,\"live\":%u,\"liveMs\":%.3f,\"relisted\":%u,"
         "\"expired\":%u,\"throttled\":%u,\"failed\":%u,\"delayMs\":",
         event, (double)(now_ns() - mark_ns) / 1e9, (unsigned long long)delivered_since,
         (unsigned long long)bytes_since, (unsigned long long)reads_since, (unsigned long long)received,
         (unsigned long long)missing, (unsigned long long)repeated, (unsigned long long)total, answered, ended,
         closed_early, failed_status, refused, strays, (unsigned long long)objects_since, live,
         live_ns > begin_ns ? (double)(live_ns - begin_ns) / 1e6 : 0, relisted, expired, throttled, failed);
  print_histogram(&delays);
  printf(",\"durationMs\":");
  print_histogram(&durations);
  printf(",\"kinds\":{");
  for (uint32_t k = 0; k < kind_count; k++) {
    printf("%s\"%s\":", k ? "," : "", kinds[k].name);
    print_histogram(&kinds[k].delays);
  }
  printf("}}\n");
  fflush(stdout);
}

static void mark(void) {
  memset(&delays, 0, sizeof delays);
  for (uint32_t k = 0; k < kind_count; k++) memset(&kinds[k].delays, 0, sizeof kinds[k].delays);
  delivered_since = objects_since = bytes_since = reads_since = 0;
  mark_ns = now_ns();
}

static void dump(const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) die(path);
  for (uint32_t i = 0; i < watcher_count; i++) {
    uint32_t count = (uint32_t)(watchers[i].versions.length / sizeof(uint64_t));
    fwrite(&count, sizeof count, 1, file);
    fwrite(watchers[i].versions.at, sizeof(uint64_t), count, file);
  }
  if (fclose(file)) die(path);
  say_status("dumped");
}

static void stall(uint32_t every, uint64_t ms) {
  for (uint32_t i = 0; i < watcher_count; i += every) {
    watchers[i].is_stalled_one = 1;
    connection *c = &connections[i / (uint32_t)option.streams];
    if (c->state == CLOSED || c->stalled) continue;
    c->stalled = 1;
    struct epoll_event want = {.events = 0, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &want);
  }
  stall_until_ns = now_ns() + ms * 1000000ull;
}

static void end_stall(void) {
  stall_until_ns = 0;
  for (int i = 0; i < opened; i++) {
    connection *c = &connections[i];
    if (!c->stalled || c->state == CLOSED) continue;
    c->stalled = 0;
    struct epoll_event want = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &want);
  }
}

static void begin_await(uint64_t sequence) {
  awaiting = 1;
  memset(class_owed, 0, class_count * sizeof *class_owed);
  wide_owed = 0;
  for (uint64_t s = option.first; s < sequence; s++) {
    uint32_t class = class_of_sequence(s);
    if (class == NO_CLASS) continue;
    class_owed[class]++;
    if (class >= wide_from && class < wide_until) wide_owed++;
  }
}

static void command(char *line) {
  unsigned long long a = 0, b = 0;
  if (!strncmp(line, "mark", 4)) mark(), say_status("marked");
  else if (!strncmp(line, "report", 6)) report("report");
  else if (!strncmp(line, "dump ", 5)) dump(line + 5);
  else if (sscanf(line, "await-end %llu", &a) == 1) awaiting_end = 1, await_until_ns = now_ns() + a * 1000000ull;
  else if (sscanf(line, "await %llu %llu", &a, &b) == 2)
    begin_await(a), await_until_ns = now_ns() + b * 1000000ull;
  else if (sscanf(line, "stall %llu %llu", &a, &b) == 2) stall((uint32_t)a, b), say_status("stalled");
}

static void read_commands(void) {
  static char line[4096];
  static size_t have;
  ssize_t n = read(0, line + have, sizeof line - have - 1);
  if (n <= 0) {
    closing = n == 0;
    return;
  }
  have += (size_t)n;
  for (char *stop; (stop = memchr(line, '\n', have));) {
    *stop = 0;
    command(line);
    have -= (size_t)(stop + 1 - line);
    memmove(line, stop + 1, have);
  }
}

static int has_everything(void) {
  static uint32_t from; /* the first watcher that is not there yet, so that asking again costs nothing */
  for (uint32_t i = 0; i < watcher_count; i++) {
    watcher *w = &watchers[(from + i) % watcher_count];
    uint32_t class = class_of(w);
    if (class == NO_CLASS || w->ended) continue;
    if (w->next < (path_of(w)->until ? wide_owed : class_owed[class])) {
      from = (from + i) % watcher_count;
      return 0;
    }
  }
  return 1;
}

static void check_awaited(void) {
  if (!awaiting && !awaiting_end) return;
  int is_late = now_ns() > await_until_ns;
  if (awaiting && (is_late || has_everything())) awaiting = 0, report(is_late ? "late" : "caught-up");
  if (awaiting_end && (is_late || ended == watcher_count)) awaiting_end = 0, report(is_late ? "late" : "all-ended");
}

static void read_body(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) die(path);
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) append(&option.body, part, n);
  fclose(file);
}

/* One little-endian number for each object of the writer's round. */
static void read_classes(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) die(path);
  for (uint32_t class; fread(&class, sizeof class, 1, file) == 1;) {
    object_class = realloc(object_class, (object_count + 1) * sizeof *object_class);
    if (!object_class) die("realloc");
    object_class[object_count++] = class;
    if (class != NO_CLASS && class >= class_count) class_count = class + 1;
  }
  fclose(file);
  if (!object_count) die("no classes");
}

static uint32_t kind_named(const char *name) {
  for (uint32_t k = 0; k < kind_count; k++)
    if (!strcmp(kinds[k].name, name)) return k;
  if (kind_count == sizeof kinds / sizeof *kinds) die("too many kinds");
  kinds[kind_count].name = name;
  return kind_count++;
}

static void read_options(int argc, char **argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    if (!strcmp(name, "--port")) option.port = atoi(value);
    else if (!strcmp(name, "--connections")) option.connections = atoi(value);
    else if (!strcmp(name, "--streams")) option.streams = atoi(value);
    else if (!strcmp(name, "--tls")) option.tls = atoi(value);
    else if (!strcmp(name, "--h2")) option.h2 = atoi(value);
    else if (!strcmp(name, "--base64")) option.base64 = atoi(value);
    else if (!strcmp(name, "--burst")) option.burst = atoi(value);
    else if (!strcmp(name, "--receive-buffer")) option.receive_buffer = atoi(value);
    else if (!strcmp(name, "--segment")) option.segment = atoi(value);
    else if (!strcmp(name, "--objects")) option.objects = atoi(value);
    else if (!strcmp(name, "--retries")) option.retries = atoi(value); /* of all connections together */
    else if (!strcmp(name, "--expect")) option.expect = value; /* what an HTTP/1.1 answer's head must contain */
    else if (!strcmp(name, "--stride")) option.stride = atoi(value);
    else if (!strcmp(name, "--first")) option.first = strtoull(value, NULL, 10);
    else if (!strcmp(name, "--path") && option.paths < 128) option.path[option.paths++] = (watch_path){.path = value};
    else if (!strcmp(name, "--accept") && option.paths) option.path[option.paths - 1].accept = value;
    else if (!strcmp(name, "--again") && option.paths) option.path[option.paths - 1].again = value;
    else if (!strcmp(name, "--kind") && option.paths) option.path[option.paths - 1].kind = kind_named(value);
    else if (!strcmp(name, "--class") && option.paths)
      option.path[option.paths - 1].class = (uint32_t)strtoul(value, NULL, 10);
    else if (!strcmp(name, "--until") && option.paths) {
      watch_path *path = &option.path[option.paths - 1];
      path->until = wide_until = (uint32_t)atoi(value), wide_from = path->class;
    } else if (!strcmp(name, "--each") && option.paths) option.path[option.paths - 1].is_each = (uint32_t)atoi(value);
    else if (!strcmp(name, "--classes")) read_classes(value);
    else if (!strcmp(name, "--method")) option.method = value;
    else if (!strcmp(name, "--authority")) option.authority = value;
    else if (!strcmp(name, "--body-file")) read_body(value);
    else if (!strcmp(name, "--progress")) option.progress = value;
    else if (!strcmp(name, "--header") && option.headers < 32) option.header[option.headers++] = value;
    else {
      fprintf(stderr, "unknown option %s\n", name);
      exit(2);
    }
  }
  if (!option.port || !option.paths) {
    fprintf(stderr, "--port and --path are needed\n");
    exit(2);
  }
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  raise_file_limit();
#ifdef WITH_TLS
  if (option.tls) {
    tls_context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(tls_context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(tls_context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (option.h2) SSL_CTX_set_alpn_protos(tls_context, (const unsigned char *)"\x02h2", 3);
    else SSL_CTX_set_alpn_protos(tls_context, (const unsigned char *)"\x08http/1.1", 9);
  }
#else
  if (option.tls) {
    fprintf(stderr, "built without TLS: OpenSSL's headers were not there\n");
    exit(2);
  }
#endif
  if (option.base64) needle = MAGIC_BASE64, needle_bytes = sizeof MAGIC_BASE64 - 1, mark_bytes = MARK_BYTES / 3 * 4;
  watcher_count = (uint32_t)(option.connections * option.streams);
  watchers = calloc(watcher_count, sizeof *watchers);
  connections = calloc((size_t)option.connections, sizeof *connections);
  if (!object_class) class_count = (uint32_t)option.stride;
  for (uint32_t i = 0; i < watcher_count; i++) /* a class that no object has is owed nothing */
    if (class_of(&watchers[i]) != NO_CLASS && class_of(&watchers[i]) >= class_count) class_count = class_of(&watchers[i]) + 1;
  class_length = calloc(class_count, sizeof *class_length);
  class_owed = calloc(class_count, sizeof *class_owed);
  if (option.progress) progress = map_progress(option.progress), *progress = 0;
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  fcntl(0, F_SETFL, O_NONBLOCK);
  struct epoll_event want = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, 0, &want);
  begin_ns = mark_ns = now_ns();

  int is_ready = 0;
  struct epoll_event events[512];
  while (!closing) {
    while (opened < option.connections && opening < option.burst) open_next();
    int n = epoll_wait(epoll_fd, events, 512, awaiting || awaiting_end || stall_until_ns || asking ? 5 : 1000);
    for (int i = 0; i < n; i++) {
      connection *c = events[i].data.ptr;
      if (!c) {
        read_commands();
      } else if (c->state == OPENING || c->state == TLS_OPENING) {
        advance_opening(c);
      } else if (c->state != CLOSED) {
        if (events[i].events & EPOLLOUT) flush_out(c);
        if (c->stalled && !(events[i].events & (EPOLLERR | EPOLLHUP))) continue;
        receive(c);
      }
    }
    if (!is_ready && opened == option.connections && opening == 0) is_ready = 1, say_status("ready");
    if (asking) ask_again();
    if (stall_until_ns && now_ns() > stall_until_ns) end_stall();
    check_awaited();
  }
  return 0;
}
