"""Files as agencies and loggers export them: one small network, written in many ways.

Each entry of :data:`FILES` writes the same readings; ``READINGS`` is what must be read of it. Names
of columns and forms of cells are those seen in public places:

- EPA AQS, hourly and daily: headers in public readers of aqs.epa.gov/aqsweb/airdata (24 and 29
  columns, texts in quotation marks, numbers without); outdoor air quality: epa.gov's daily files.
- EEA, reported data: the 17 columns that pyaerocom's reader of the E1a and E2a files lists;
  Parquet: the columns of the EEA's download service.
- OpenAQ: the archive's records, the explorer's CSV, and version 3 of the API as
  pandas.json_normalize flattens it (``period.datetimeFrom.utc``, ``parameter.name``).
- PurpleAir: the history of the API as CSV (``time_stamp,sensor_index,...``, in seconds or ISO
  8601), the download tool's file for each sensor, ThingSpeak.
- UBA: the air quality index download (``Stationscode;Datum;"Feinstaub ..."``, times in quotes).
- UK-AIR: a station's year with hours across, and the data selector's files with status and unit.
- Sensor.Community: archive.sensor.community (12 columns of an SDS011).
- NDBC, separated by blanks: written as they are known, too.
- AirNow, Geod'air, Campbell TOA5, Davis, WeatherLink, hours across with flags: written as they are
  known, not compared with a file or a reader of it.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TIMES = pd.date_range("2024-01-30 20:00", periods=8, freq="h")
READINGS = {
    "DEBE010": ["12.1", "", "13.0", "11.55", "10.2", "9.9", "9.0", "8.75"],
    "DEBE034": ["22.4", "21.0", "20.8", "", "", "18.1", "17.9", "17.2"],
    "DEBE065": ["5.0", "5.5", "6.1", "6.3", "6.25", "6.9", "7.1", ""],
}
IDS = list(READINGS)
PLACES = {"DEBE010": (52.54, 13.35), "DEBE034": (52.49, 13.43), "DEBE065": (52.51, 13.47)}
MONTHS = {
    "english": ["January", "February"],
    "german": ["Januar", "Februar"],
    "french": ["janvier", "février"],
    "spanish": ["enero", "febrero"],
}


@dataclass(frozen=True)
class Export:
    """A file: how it is written, options that it needs, and what of it differs from READINGS."""

    write: Callable[[Path], Path]
    options: dict[str, Any] = field(default_factory=dict)
    hint: str = ""
    ids: list[str] = field(default_factory=lambda: IDS)
    notes: tuple[str, ...] = ()
    zone: bool = False
    cells: dict[str, list[str]] = field(default_factory=lambda: READINGS)
    times: pd.DatetimeIndex = field(default_factory=lambda: TIMES)


def rows(sep: str = ",", stamp: str = "%Y-%m-%d %H:%M", comma: bool = False) -> list[str]:
    """The table, one line a slot."""
    lines = []
    for i, time in enumerate(TIMES):
        cells = [READINGS[name][i] for name in IDS]
        cells = [cell.replace(".", ",") for cell in cells] if comma else cells
        lines.append(sep.join([time.strftime(stamp), *cells]))
    return lines


def text(
    name: str, lines: list[str], encoding: str = "utf-8", end: str = "\n"
) -> Callable[[Path], Path]:
    """Writes lines into a file of this name."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes((end.join(lines) + end).encode(encoding))
        return path

    return write


def header(sep: str = ",", first: str = "time") -> str:
    return sep.join([first, *IDS])


def table_lines(
    sep: str = ",", stamp: str = "%Y-%m-%d %H:%M", comma: bool = False, first: str = "time"
) -> list[str]:
    return [header(sep, first), *rows(sep, stamp, comma)]


def month_words(language: str) -> list[str]:
    words = MONTHS[language]
    lines = [header(";", "Datum")]
    for time, line in zip(TIMES, rows(";", "", comma=language != "english"), strict=True):
        word = words[time.month - 1]
        day = f"{time.day}. {word}" if language == "german" else f"{time.day} {word}"
        day = f"{time.day} de {word} de" if language == "spanish" else day
        lines.append(f"{day} {time.year} {time:%H:%M}{line}")
    return lines


def at_24(time: pd.Timestamp, stamp: str = "%d.%m.%Y") -> str:
    if time.hour == 0:
        return f"{(time - pd.Timedelta(days=1)).strftime(stamp)} 24:00"
    return f"{time.strftime(stamp)} {time:%H:%M}"


def long_rows(line: Callable[[str, int, str], str], empty: bool = True) -> list[str]:
    return [
        line(name, i, cell)
        for name in IDS
        for i, cell in enumerate(READINGS[name])
        if cell or empty
    ]


def blanks(first: str, stamp: str) -> list[str]:
    """Columns of one width, with NaN for missing readings."""
    lines = [f"{first:<17}" + "".join(f"{name:>10}" for name in IDS)]
    for i, time in enumerate(TIMES):
        cells = (READINGS[name][i] or "NaN" for name in IDS)
        lines.append(f"{time.strftime(stamp):<17}" + "".join(f"{cell:>10}" for cell in cells))
    return lines


def from_r() -> list[str]:
    """``write.table``: names in quotation marks, numbered rows without a name."""
    lines = [" ".join(f'"{name}"' for name in ("time", *IDS))]
    for i, line in enumerate(rows(";", '"%Y-%m-%d %H:%M"')):
        cells = [cell or "NA" for cell in line.split(";")]
        lines.append(" ".join([f'"{i + 1}"', *cells]))
    return lines


def ndbc() -> list[str]:
    """Standard meteorological data: two rows of names, 99, 999 and 9999 by column, MM."""
    lines = [
        "#YY  MM DD hh mm WDIR WSPD GST  WVHT   DPD   APD MWD   PRES  ATMP  WTMP  DEWP  VIS PTDY"
        "  TIDE",
        "#yr  mo dy hr mn degT m/s  m/s     m   sec   sec degT   hPa  degC  degC  degC  nmi  hPa"
        "    ft",
    ]
    for i, time in enumerate(TIMES):
        water = READINGS["DEBE010"][i] or "999.0"
        wave = "99.00 99.00 99.00 999" if i % 2 else " 1.27  8.33  5.41 118"
        lines.append(
            f"{time:%Y %m %d %H %M} {200 + 9 * i:3d}  5.{i}  6.{i} {wave} 9999.0  12.{i} {water:>5}"
            " 999.0 99.0   MM 99.00"
        )
    return lines


def transposed() -> list[str]:
    lines = [",".join(["station", *TIMES.strftime("%Y-%m-%d %H:%M")])]
    return lines + [",".join([name, *READINGS[name]]) for name in IDS]


def flags() -> list[str]:
    lines = ["time," + ",".join(f"{name},{name}_flag" for name in IDS)]
    for i, time in enumerate(TIMES):
        pairs = [f"{READINGS[name][i]},{'V' if READINGS[name][i] else 'N'}" for name in IDS]
        lines.append(f"{time:%Y-%m-%d %H:%M}," + ",".join(pairs))
    return lines


def with_mean(name: str, total: bool) -> list[str]:
    lines = [f"{header()},{name}"]
    for i, line in enumerate(rows()):
        numbers = [float(READINGS[one][i]) for one in IDS if READINGS[one][i]]
        made = sum(numbers) if total else sum(numbers) / len(numbers)
        lines.append(f"{line},{made:.2f}")
    return lines


def folder_of_stations(folder: Path) -> Path:
    path = folder / "stations"
    path.mkdir()
    for name in IDS:
        lines = ["time,value"]
        lines += [f"{t:%Y-%m-%d %H:%M},{c}" for t, c in zip(TIMES, READINGS[name], strict=True)]
        (path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (path / "README.md").write_text("not a table")
    return path


def archive(folder: Path) -> Path:
    stations, path = folder_of_stations(folder), folder / "stations.zip"
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(stations.iterdir()):
            made.write(file, f"export/{file.name}")
    return path


def workbook(folder: Path, suffix: str) -> Path:
    frame = pd.DataFrame({name: [float(c) if c else None for c in READINGS[name]] for name in IDS})
    frame.insert(0, "Zeit", TIMES)
    about = pd.DataFrame([["Luftgüte Berlin", None], ["erstellt am", "2024-02-01"]])
    path = folder / f"export{suffix}"
    engine = "openpyxl" if suffix == ".xlsx" else "odf"
    with pd.ExcelWriter(path, engine=engine) as book:
        about.to_excel(book, sheet_name="Info", header=False, index=False)
        frame.to_excel(book, sheet_name="PM10", index=False, startrow=3)
    return path


def purpleair(folder: Path) -> Path:
    lines = ["time_stamp,sensor_index,humidity,temperature,pressure,pm2.5_atm"]
    for n, name in enumerate(IDS):
        for time, cell in zip(TIMES, READINGS[name], strict=True):
            seconds = int(time.timestamp())
            lines.append(f"{seconds},{1000 + n},{45 + n},{61},{1012.3},{cell}")
    return text("purpleair.csv", lines)(folder)


def purpleair_folder(folder: Path) -> Path:
    path = folder / "purple"
    path.mkdir()
    for n, name in enumerate(IDS):
        lines = ["time_stamp,humidity,temperature,pm2.5_atm"]
        for time, cell in zip(TIMES, READINGS[name], strict=True):
            lines.append(f"{time.isoformat()}+00:00,{45 + n},61,{cell}")
        (path / f"{name} 2024-01-30 2024-01-31 60-Minute Average.csv").write_text("\n".join(lines))
    return path


def uba(components: int = 3) -> list[str]:
    quantities = [
        "Feinstaub (PM₁₀) stündlich gleitendes Tagesmittel in µg/m³",
        "Ozon (O₃) Ein-Stunden-Mittelwert in µg/m³",
        "Stickstoffdioxid (NO₂) Ein-Stunden-Mittelwert in µg/m³",
    ][:components]
    lines = ['Stationscode;Datum;"' + '";"'.join(quantities) + '";Luftqualitätsindex']

    def line(name: str, i: int, cell: str) -> str:
        others = "".join(f";{40 + i}" for _ in quantities[1:])
        return f"{name};\"'{at_24(TIMES[i])}'\";{cell or '-'}{others};sehr gut"

    return [*lines, *long_rows(line), "", "Quelle: Umweltbundesamt, alle Zeiten in MEZ"]


EEA_OLD = (
    "Countrycode,Namespace,AirQualityNetwork,AirQualityStation,AirQualityStationEoICode,"
    "SamplingPoint,SamplingProcess,Sample,AirPollutant,AirPollutantCode,AveragingTime,"
    "Concentration,UnitOfMeasurement,DatetimeBegin,DatetimeEnd,Validity,Verification"
)


def eea_old() -> list[str]:
    def line(name: str, i: int, cell: str) -> str:
        begin = f"{TIMES[i]:%Y-%m-%d %H:%M:%S} +00:00"
        end = f"{TIMES[i] + pd.Timedelta(hours=1):%Y-%m-%d %H:%M:%S} +00:00"
        return (
            f"DE,DE.UBA.AQD,NET.DE_BE,STA.DE_{name},{name},SPO.DE_{name}_PM1_dataGroup1,"
            f"SPP.DE_{name}_PM1,SPM.DE_{name},PM10,http://dd.eionet.europa.eu/vocabulary/aq/"
            f"pollutant/5,hour,{cell or '-999'},µg/m3,{begin},{end},{1 if cell else -1},1"
        )

    return [EEA_OLD, *long_rows(line)]


def eea_new(folder: Path) -> Path:
    cells = [(name, i, cell) for name in IDS for i, cell in enumerate(READINGS[name])]
    begin = [TIMES[i].as_unit("us") for _, i, _ in cells]
    # The downloads give Start in UTC+1.
    start = [time + pd.Timedelta(hours=1) for time in begin]
    made = pa.table(
        {
            "Samplingpoint": [f"DE/SPO.{name}" for name, _, _ in cells],
            "Pollutant": pa.array([5] * len(cells), pa.int32()),
            "Start": pa.array(start, pa.timestamp("ns")),
            "End": pa.array([t + pd.Timedelta(hours=1) for t in start], pa.timestamp("ns")),
            "Value": pa.array([Decimal(c or "-999") for _, _, c in cells], pa.decimal128(38, 18)),
            "Unit": ["ug.m-3"] * len(cells),
            "AggType": ["hour"] * len(cells),
            "Validity": pa.array([1 if c else -1 for _, _, c in cells], pa.int32()),
            "Verification": pa.array([1] * len(cells), pa.int32()),
            "ResultTime": pa.array(start, pa.timestamp("ns")),
            "DataCapture": pa.array([None] * len(cells), pa.decimal128(38, 18)),
            "FkObservationLog": ["x"] * len(cells),
        }
    )
    path = folder / "eea.parquet"
    pq.write_table(made, path)
    return path


def aqs() -> list[str]:
    names = (
        '"State Code","County Code","Site Num","Parameter Code","POC","Latitude","Longitude",'
        '"Datum","Parameter Name","Date Local","Time Local","Date GMT","Time GMT",'
        '"Sample Measurement","Units of Measure","MDL","Uncertainty","Qualifier","Method Type",'
        '"Method Code","Method Name","State Name","County Name","Date of Last Change"'
    )

    def line(name: str, i: int, cell: str) -> str:
        lat, lon = PLACES[name]
        local = TIMES[i] - pd.Timedelta(hours=8)
        return (
            f'"06","001","{name[-4:]}","88101",3,{lat},{lon},"WGS84","PM2.5 - Local Conditions",'
            f'"{local:%Y-%m-%d}","{local:%H:%M}","{TIMES[i]:%Y-%m-%d}","{TIMES[i]:%H:%M}",{cell},'
            '"Micrograms/cubic meter (LC)",5,"","","FEM","170","Met One BAM","California",'
            '"Alameda","2024-02-20"'
        )

    return [names, *long_rows(line, empty=False)]


def openaq() -> list[str]:
    names = (
        "location_id,location_name,parameter,value,unit,datetimeUtc,datetimeLocal,timezone,"
        "latitude,longitude,country_iso,isMobile,isMonitor,owner_name,provider"
    )

    def line(name: str, i: int, cell: str) -> str:
        lat, lon = PLACES[name]
        local = TIMES[i] + pd.Timedelta(hours=1)
        when = f"{TIMES[i]:%Y-%m-%dT%H:%M:%SZ}"
        return (
            f'{IDS.index(name) + 4000},"{name}, Berlin",pm10,{cell},µg/m³,{when},'
            f"{local:%Y-%m-%dT%H:%M:%S}+01:00,Europe/Berlin,{lat},{lon},DE,,,Senat,EEA"
        )

    return [names, *long_rows(line, empty=False)]


def openaq_archive(folder: Path) -> Path:
    """A place's records as the archive has them: one gzip file a day, in folders by month."""
    header = "location_id,sensors_id,location,datetime,lat,lon,parameter,units,value"
    path = folder / "records"
    for n, name in enumerate(IDS):
        lat, lon = PLACES[name]
        for day in sorted(set(TIMES.date)):
            lines = [header]
            for time, cell in zip(TIMES, READINGS[name], strict=True):
                if cell and time.date() == day:
                    stamp = f"{time + pd.Timedelta(hours=1):%Y-%m-%dT%H:%M:%S}+01:00"
                    where = f"{4000 + n},{900 + n},{name}-{4000 + n},{stamp},{lat},{lon}"
                    lines.append(f"{where},pm10,µg/m³,{cell}")
            if len(lines) > 1:
                place = path / f"locationid={4000 + n}" / f"year=2024/month={day:%m}"
                place.mkdir(parents=True, exist_ok=True)
                content = gzip.compress("\n".join(lines).encode())
                (place / f"location-{4000 + n}-{day:%Y%m%d}.csv.gz").write_bytes(content)
    return path


def epa_daily(old: bool) -> list[str]:
    """The outdoor air quality page's file of a year, with the header of its time."""
    names = (
        "Date,Source,Site ID,POC,Daily Mean PM2.5 Concentration,Units,Daily AQI Value,"
        "Local Site Name,Daily Obs Count,Percent Complete,AQS Parameter Code,"
        "AQS Parameter Description,Method Code,CBSA Code,CBSA Name,State FIPS Code,State,"
        "County FIPS Code,County,Site Latitude,Site Longitude"
    )
    if old:
        names = (
            "Date,Source,Site ID,POC,Daily Mean PM2.5 Concentration,UNITS,DAILY_AQI_VALUE,"
            "Site Name,DAILY_OBS_COUNT,PERCENT_COMPLETE,AQS_PARAMETER_CODE,AQS_PARAMETER_DESC,"
            "CBSA_CODE,CBSA_NAME,STATE_CODE,STATE,COUNTY_CODE,COUNTY,SITE_LATITUDE,SITE_LONGITUDE"
        )
    lines = [names]
    for name in IDS:
        lat, lon = PLACES[name]
        for i, cell in enumerate(READINGS[name]):
            method = "" if old else "736,"
            lines.append(
                f"01/{13 + i:02d}/2024,AQS,{60010000 + int(name[-3:])},3,{cell},ug/m3 LC,40,Oakland"
                f",1,100,88101,PM2.5 - Local Conditions,{method}41860,San Francisco,06,California,"
                f"001,Alameda,{lat},{lon}"
            )
    return lines


def jitter() -> list[str]:
    lines = ["timestamp,sensor,value"]
    for n, name in enumerate(IDS):
        for i in range(40):
            time = pd.Timestamp("2024-01-30") + pd.Timedelta(
                hours=i, seconds=(37 * i * (n + 1)) % 97
            )
            lines.append(f"{time:%Y-%m-%d %H:%M:%S},{name},{10 + n + i / 10}")
    return lines


def below_limit() -> tuple[list[str], dict[str, list[str]]]:
    lines = table_lines()
    lines[1] = lines[1].replace("5.0", "<2.0")
    lines[2] = lines[2].replace("5.5", "<LOD")
    cells = READINGS | {"DEBE065": ["", "", *READINGS["DEBE065"][2:]]}
    return lines, cells


def hours(first: str) -> list[str]:
    lines = [f"Date;{first};" + ";".join(IDS)]
    for time, line in zip(TIMES, rows(";", ""), strict=True):
        day = time if time.hour else time - pd.Timedelta(days=1)
        lines.append(f"{day:%d.%m.%Y};{time.hour or 24}{line}")
    return lines


DAYS = pd.date_range("2024-01-30 01:00", periods=48, freq="h")
"""Two whole days, by the ends of their hours."""
IN_DAYS = {
    name: [cells[list(TIMES).index(t)] if t in TIMES else "" for t in DAYS]
    for name, cells in READINGS.items()
}


def hours_across(first: str, hour: str, day: str, sep: str = ",", flag: str = "") -> list[str]:
    """A row a day and a station, a column an hour, perhaps with a flag behind each."""
    names = [hour.format(h) + (sep + flag.format(h) if flag else "") for h in range(1, 25)]
    lines = [sep.join([first, *names])]
    for name, cells in IN_DAYS.items():
        for n in (0, 24):
            row = [c + (f"{sep}{'V' if c else 'N'}" if flag else "") for c in cells[n : n + 24]]
            lines.append(sep.join([name, DAYS[n].strftime(day), *row]))
    return lines


def one_station_by_hours() -> list[str]:
    cells = [IN_DAYS["DEBE010"][n - 1] if n else "" for n in range(48)]
    lines = ["Date," + ",".join(f"{h:02d}:00" for h in range(24))]
    return lines + [f"2024-01-{30 + n},{','.join(cells[24 * n : 24 * n + 24])}" for n in (0, 1)]


def by_halves_of_the_day(midnight: str, noon: str, last: bool) -> list[str]:
    """One station by AM and PM; midnight before its day, or behind it."""
    names = [*(f"{h}:00 AM" for h in range(1, 12)), noon, *(f"{h}:00 PM" for h in range(1, 12))]
    names, lines = ([*names, midnight] if last else [midnight, *names]), one_station_by_hours()[1:]
    if last:
        cells = IN_DAYS["DEBE010"]
        lines = [f"2024-01-{30 + n},{','.join(cells[24 * n : 24 * n + 24])}" for n in (0, 1)]
    return [",".join(["Date", *names]), *lines]


def turned_with(names: str, more: str) -> list[str]:
    lines = [";".join([names, *TIMES.strftime("%d.%m.%Y %H:%M")])]
    return lines + [";".join([name, more, *READINGS[name]]) for name in IDS]


def toa5() -> list[str]:
    """A Campbell logger's file: its station, the names, the units, the kind of aggregation."""
    lines = [
        '"TOA5","Berlin","CR1000X","1234","CR1000X.Std.03.02","CPU:aq.CR1X","5512","Hourly"',
        '"TIMESTAMP","RECORD",' + ",".join(f'"{n}"' for n in IDS),
        '"TS","RN","ug/m3","ug/m3","ug/m3"',
        '"","","Avg","Avg","Avg"',
    ]
    for i, time in enumerate(TIMES):
        cells = [READINGS[name][i] or '"NAN"' for name in IDS]
        lines.append(f'"{time:%Y-%m-%d %H:%M:%S}",{100 + i},{",".join(cells)}')
    return lines


def openaq_v3(sensors: bool) -> list[str]:
    """Measurements of the API, its nested names joined with points."""
    names = (
        "value,flagInfo.hasFlags,parameter.id,parameter.name,parameter.units,period.label,"
        "period.interval,period.datetimeFrom.utc,period.datetimeFrom.local,period.datetimeTo.utc,"
        "period.datetimeTo.local,coordinates"
    )

    def line(name: str, i: int, cell: str) -> str:
        begin, end = TIMES[i], TIMES[i] + pd.Timedelta(hours=1)
        both = [f"{t:%Y-%m-%dT%H:%M:%SZ},{t:%Y-%m-%dT%H:%M:%S}-00:00" for t in (begin, end)]
        last = f",{3900 + IDS.index(name)}" if sensors else ""
        return f"{cell},False,1,pm10,µg/m³,raw,01:00:00,{','.join(both)},{last}"

    if sensors:
        return [names + ",sensor_id", *long_rows(line, empty=False)]
    return [names, *(line("DEBE010", i, c) for i, c in enumerate(READINGS["DEBE010"]))]


def airnow() -> list[str]:
    names = (
        '"Latitude","Longitude","UTC","Parameter","Concentration","Unit","AQI","Category",'
        '"SiteName","AgencyName","FullAQSCode","IntlAQSCode"'
    )

    def line(name: str, i: int, cell: str) -> str:
        lat, lon = PLACES[name]
        code = f"{60010000 + int(name[-3:]):09d}"
        return (
            f'"{lat}","{lon}","{TIMES[i]:%Y-%m-%dT%H:%M}","PM10","{cell or -999}","UG/M3",'
            f'"{30 + i}","1","{name}","Senat","{code}","840{code}"'
        )

    return [names, *long_rows(line)]


def uk_air(stations: list[str]) -> list[str]:
    """One station with its status and unit, or several side by side under their names."""
    quantity = "PM<sub>10</sub> particulate matter (Hourly measured)"
    lines = [
        "Data supplied by UK-AIR on 1/2/2024", "All Data GMT hour ending",
        "Status: R = Ratified / P = Provisional / P* = As supplied", "",
    ]  # fmt: skip
    if len(stations) > 1:
        lines.append(",," + ",,,".join(stations))
    lines.append("Date,Time," + ",".join([f"{quantity},Status,Unit"] * len(stations)))
    for i, time in enumerate(TIMES):
        day = time if time.hour else time - pd.Timedelta(days=1)
        cells = [READINGS[name][i] for name in IDS[: len(stations)]]
        told = [f"{c},R,ugm-3 (TEOM FDMS)" if c else "No data,," for c in cells]
        lines.append(f"{day:%d-%m-%Y},{time.hour or 24:02d}:00,{','.join(told)}")
    return [*lines, "End"]


def uk_air_year() -> list[str]:
    """A station's year: a row a day, those that are provisional marked."""
    lines = [
        "Data supplied by UK-AIR on 1/2/2024", "All Data GMT hour ending  ",
        "Rows begining ## are Provisional", "Wrexham PM<sub>10</sub> (Hourly measured) ug/m-3",
        "   Date   , " + ", ".join(f"{h:02d}:00" for h in range(1, 25)),
    ]  # fmt: skip
    cells = IN_DAYS["DEBE010"]
    return [*lines, f"30-01-2024,{','.join(cells[:24])}", f"##31-01-2024,{','.join(cells[24:])}"]


def uk_air_quantities() -> list[str]:
    """All quantities of one station, each with its status and its unit."""
    lines = [
        "Data supplied by UK-AIR on 1/2/2024", "All Data GMT hour ending ",
        "Status: R =Ratified P=Provisional,P*=As supplied", ",,Cardiff Centre,,,,,",
        'Date,time,"PM<sub>10</sub> particulate matter (Hourly measured)",status,unit,'
        '"Nitrogen dioxide",status,unit', " ",
    ]  # fmt: skip
    for i, time in enumerate(TIMES):
        day = time if time.hour else time - pd.Timedelta(days=1)
        cell = READINGS["DEBE010"][i]
        first = f"{cell},R,ugm-3" if cell else ",,"
        lines.append(f"{day:%d-%m-%Y},{time.hour or 24:02d}:00,{first},{15 + i}.0,R,ugm-3")
    return lines


def geodair() -> list[str]:
    names = (
        "Date de début;Date de fin;Organisme;code zas;Zas;code site;nom site;type d'implantation;"
        "Polluant;type d'influence;discriminant;Réglementaire;type d'évaluation;"
        "procédure de mesure;type de valeur;valeur;valeur brute;unité de mesure;taux de saisie;"
        "couverture temporelle;couverture de données;code qualité;validité"
    )

    def line(name: str, i: int, cell: str) -> str:
        end = TIMES[i] + pd.Timedelta(hours=1)
        return (
            f"{TIMES[i]:%Y/%m/%d %H:%M:%S};{end:%Y/%m/%d %H:%M:%S};AIRPARIF;FR11ZAG01;PARIS;"
            f"FR{name[-5:]};{name};Urbaine;PM10;Fond;A;Oui;mesures fixes;Auto;"
            f"moyenne horaire brute;{cell};{cell};µg-m3;;;;{'A' if cell else 'N'};"
            f"{1 if cell else -1}"
        )

    return [names, *long_rows(line)]


def sensor_community() -> list[str]:
    names = "sensor_id;sensor_type;location;lat;lon;timestamp;P1;durP1;ratioP1;P2;durP2;ratioP2"

    def line(name: str, i: int, cell: str) -> str:
        n, (lat, lon) = IDS.index(name), PLACES[name]
        half = f"{float(cell) / 2:.2f}" if cell else ""
        return f"{100 + n};SDS011;{50 + n};{lat};{lon};{TIMES[i].isoformat()};{cell};;;{half};;"

    return [names, *long_rows(line)]


def davis() -> list[str]:
    lines = ["\t\tTemp\tHi\tLow\tOut\tWind", "Date\tTime\tOut\tTemp\tTemp\tHum\tSpeed"]
    for time, cell in zip(TIMES, READINGS["DEBE010"], strict=True):
        lines.append(f"{time:%d/%m/%y}\t{time:%H:%M}\t{cell or '---'}\t14.0\t9.5\t80\t3")
    return lines


def weatherlink() -> list[str]:
    lines = ['"Station 7","","",""', '"","","",""', '"Date & Time","' + '","'.join(IDS) + '"']
    for i, time in enumerate(TIMES):
        cells = [READINGS[name][i] or "--" for name in IDS]
        lines.append(f'"{time:%m/%d/%y %I:%M %p}","' + '","'.join(cells) + '"')
    return lines


def merged_titles(folder: Path) -> Path:
    """A workbook for people: titles over all columns, decimal commas typed as text."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet, path = book.active, folder / "merged.xlsx"
    top = [["Luftmessnetz Berlin, Stundenwerte"], ["Januar 2024"], [], ["", "Station"]]
    for row in [*top, ["Datum / Uhrzeit", *IDS], ["(MEZ)", "µg/m³", "µg/m³", "µg/m³"]]:
        sheet.append(row)
    for cells in ("A1:D1", "A2:D2", "B4:D4"):
        sheet.merge_cells(cells)
    for line in rows(";", "%d.%m.%Y %H:%M", comma=True):
        sheet.append(line.split(";"))
    for row in ([], ["Quelle: Senat"]):
        sheet.append(row)
    book.save(path)
    return path


def only(name: str) -> dict[str, list[str]]:
    return {name: READINGS[name]}


TITLES = ["Luftgüte, stündliche Werte", "Station: Berlin; erstellt am 01.02.2024", ""]
UNITS = "," + ",".join(["µg/m³"] * 3)


def beside(first: str, before: Callable[[int, pd.Timestamp], str], after: str = "") -> list[str]:
    """The table with more columns: a name and a cell for each before the readings, and behind."""
    return [
        header(first=first) + after,
        *(
            f"{before(i, time)}{row}" + ",7" * after.count(",")
            for i, (time, row) in enumerate(zip(TIMES, rows(",", ""), strict=True))
        ),
    ]


def odd_layouts() -> dict[str, Export]:
    """What is seen in files of single agencies and loggers, one oddity each."""
    hour = pd.Timedelta(hours=1)
    plain = table_lines()
    twice = [f"{name}_{kind}" for name in IDS for kind in ("PM10", "temperature")]
    doubled = [
        ",".join([f"{time}", *(f"{READINGS[name][i]},{i}.5" for name in IDS)])
        for i, time in enumerate(TIMES)
    ]
    by_type = [
        f"{t:%Y%m%d},{t.hour},{kind}{row}"
        for kind in ("PM10", "AQI")
        for t, row in zip(TIMES, rows(",", ""), strict=True)
    ]
    about = [f"{name},{name}_std,{name}_n" for name in IDS]
    spread = [
        f"{time}," + ",".join(f"{READINGS[name][i]},0.{i + 1},60" for name in IDS)
        for i, time in enumerate(TIMES)
    ]
    numbered = [
        "Nr;1;2;3",
        "Kod stacji;" + ";".join(IDS),
        "Wskaźnik;PM10;PM10;PM10",
        "Jednostka;ug/m3;ug/m3;ug/m3",
        *rows(";", comma=True),
    ]
    minutes = lambda i, t: f"{t.year},{t.month},{t.day},{t.hour},{t.minute}"  # noqa: E731
    half = [
        f"{t:%d/%m/%Y %I:%M} {'a. m.' if t.hour < 12 else 'p. m.'}{row}"
        for t, row in zip(TIMES, rows(";", ""), strict=True)
    ]
    france = long_rows(
        lambda n, i, c: f"Rhône;Lyon;{n};PM10;{c};ug.m-3;{TIMES[i]};{TIMES[i] + hour};1"
    )
    carb = long_rows(lambda n, i, c: f"{n},{TIMES[i]:%Y-%m-%d},{TIMES[i].hour},{c},PM25HR,ug/m3")
    arpa = long_rows(lambda n, i, c: f"{n},{TIMES[i]:%d/%m/%Y %H:%M:%S},{c or -9999},VA,1")
    grey = long_rows(lambda n, i, c: f"7,{n},{TIMES[i]},{TIMES[i]:%Y-%m-%dT%H:%M:%S}Z,12,{c},{c},2")
    return {
        "from and to": Export(
            text("a.csv", beside("From Date,To Date", lambda i, t: f"{t:%d-%m-%Y %H:%M},"
                                 f"{t + hour:%d-%m-%Y %H:%M}")), notes=("no readings", "To Date"),
        ),
        "start and end in digits": Export(
            text("a.csv", beside("TIMESTAMP_START,TIMESTAMP_END", lambda i, t: f"{t:%Y%m%d%H%M},"
                                 f"{t + hour:%Y%m%d%H%M}")), notes=("TIMESTAMP_END",),
        ),
        "what a logger says of itself": Export(
            text("a.csv", beside("time,utc_offset,Battery (V)",
                                 lambda i, t: f"{t},60,{3.9 - i / 9}",
                                 ",RSSI,lat,lon")), notes=("utc_offset, Battery (V), RSSI, lat",),
        ),
        "parts beside the time": Export(
            text("a.csv", beside("datetime,year,month,day,hour", lambda i, t: f"{t},{t.year},"
                                 f"{t.month},{t.day},{t.hour}")), notes=("year, month, day, hour",),
        ),
        "spread and count beside": Export(
            text("a.csv", ["time," + ",".join(about), *spread]), notes=("DEBE010_std, DEBE010_n",),
        ),
        "year and day of the year": Export(
            text("a.csv", beside("year,doy,hour",
                                 lambda i, t: f"{t.year},{t.day_of_year},{t.hour}")),
            notes=("two columns: year, doy",),
        ),
        "five parts of the time": Export(
            text("a.csv", beside("year,month,day,hour,minute", minutes)), notes=("three columns",),
        ),
        "sep= above": Export(text("a.csv", ["sep=;", *table_lines(";", comma=True)])),
        "column names again": Export(
            text("a.csv", [*plain[:4], plain[0], *plain[4:]]), notes=("repeat the column names",),
        ),
        "UTC in letters": Export(
            text("a.csv", table_lines(stamp="%Y-%m-%d %H:%M:%S UTC")), zone=True
        ),
        "a. m. and p. m.": Export(text("a.csv", [header(";", "Fecha y hora"), *half])),
        "clock with points": Export(
            text("a.csv", table_lines(";", "%d/%m/%Y;%H.%M.%S", True, "Date;Time")),
            notes=("two columns",),
        ),
        "numbered columns": Export(text("a.csv", numbered), notes=("units: ug/m3",)),
        "text called .xls": Export(text("a.xls", table_lines("\t"), "utf-16")),
        "text called .dat": Export(text("a.dat", plain)),
        "epoch microseconds": Export(
            text("a.csv", beside("time", lambda i, t: f"{int(t.timestamp())}000000")), zone=True,
            notes=("microseconds since 1970",),
        ),
        "CARB": Export(
            text("a.csv", ["site,date,start_hour,value,variable,units", *carb]),
            notes=("two columns", "PM25HR"),
        ),
        "Atmo": Export(
            text("a.csv", ["nom_dept;nom_com;code_station;nom_poll;valeur;unite;date_debut;"
                           "date_fin;statut_valid", *france], "windows-1252"),
            notes=("parameter is PM10",),
        ),
        "ARPA Lombardia": Export(
            text("a.csv", ["IdSensore,Data,Valore,Stato,idOperatore", *arpa])
        ),
        "AirGradient": Export(
            text("a.csv", ["Location ID,Sensor ID,Local Date/Time,UTC Date/Time,# of records,"
                           "PM2.5 (μg/m³) raw,PM2.5 (μg/m³) corrected,Temperature (°C)", *grey]),
            {"parameter": "PM2.5 (μg/m³) raw"}, hint="parameter='PM2.5 (μg/m³) raw'", zone=True,
        ),
        "a row for each quantity": Export(
            text("a.csv", [header(first="date,hour,type"), *by_type]), {"parameter": "PM10"},
            hint="parameter=AQI", notes=("two columns",),
        ),
        "weather at each station": Export(
            text("a.csv", ["time," + ",".join(twice), *doubled]), ids=[f"{n}_PM10" for n in IDS],
            notes=("readings are pm10 (3 columns)",),
        ),
        "Shift-JIS": Export(
            text("a.csv", table_lines(first="旭川"), "shift_jis"), {"encoding": "shift_jis"},
            hint="encoding=shift_jis",
        ),
    }  # fmt: skip


FILES: dict[str, Export] = {
    "plain wide": Export(text("a.csv", table_lines())),
    "plain long": Export(
        text("a.csv", ["time,station,value", *long_rows(lambda n, i, c: f"{TIMES[i]},{n},{c}")])
    ),
    "semicolon, decimal comma": Export(text("a.csv", table_lines(";", "%d.%m.%Y %H:%M", True))),
    "tabs, Windows lines": Export(text("a.txt", table_lines("\t"), end="\r\n")),
    "Latin-1": Export(
        text("a.csv", ["Meßzeit;" + ";".join(IDS), *rows(";")], "latin-1"), notes=("windows-1252",)
    ),
    "Windows-1252": Export(
        text("a.csv", ["Preis in €", *table_lines(";")], "windows-1252"), notes=("windows-1252",)
    ),
    "UTF-16": Export(text("a.csv", table_lines("\t"), "utf-16")),
    "UTF-8 with a mark": Export(text("a.csv", table_lines(), "utf-8-sig")),
    "titles above": Export(text("a.csv", TITLES + table_lines(";")), notes=("above the column",)),
    "titles with delimiters": Export(text("a.csv", ["Air,quality,,", ",,,", *table_lines()])),
    "comments above": Export(text("a.csv", ["# made by logger 7", "# v2, 2024", *table_lines()])),
    "source below": Export(
        text("a.csv", [*table_lines(";"), "", "Quelle: Senat von Berlin; ohne Gewähr"]),
        notes=("below the table",),
    ),
    "means below": Export(
        text("a.csv", [*table_lines(), "Mean,10.5,19.6,6.2", "Max,13.0,22.4,7.1"]),
        notes=("below the table",),
    ),
    "row of units": Export(
        text("a.csv", [header(), UNITS, *rows()]), notes=("names units: µg/m³",)
    ),
    "units in names": Export(
        text("a.csv", ["time," + ",".join(f"{n} [µg/m³]" for n in IDS), *rows()]),
        ids=[f"{n} [µg/m³]" for n in IDS],
    ),
    "delimiter at the end": Export(text("a.csv", [line + ";" for line in table_lines(";")])),
    "delimiter after the header": Export(text("a.csv", [header(";") + ";", *rows(";")])),
    "empty columns": Export(
        text("a.csv", [line.replace(",", ",,", 1) + ",," for line in table_lines()])
    ),
    "mean column": Export(text("a.csv", with_mean("Mean", False)), notes=("a sum or a mean",)),
    "total column": Export(text("a.csv", with_mean("all", True)), notes=("a sum or a mean",)),
    "English months": Export(text("a.csv", month_words("english"))),
    "German months": Export(text("a.csv", month_words("german"))),
    "French months": Export(text("a.csv", month_words("french"))),
    "Spanish months": Export(text("a.csv", month_words("spanish"))),
    "two-digit years": Export(text("a.csv", table_lines(";", "%d.%m.%y %H:%M"))),
    "24:00": Export(
        text(
            "a.csv",
            [header(";"), *(at_24(t) + line for t, line in zip(TIMES, rows(";", ""), strict=True))],
        ),
        notes=("24:00",),
    ),
    "date and clock": Export(
        text(
            "a.csv",
            [
                "Datum;Uhrzeit;" + ";".join(IDS),
                *rows(";", "%d.%m.%Y;%H:%M"),
            ],
        ),
        notes=("two columns",),
    ),
    "hours 1 to 24": Export(text("a.csv", hours("Hour")), notes=("Hours 1 to 24",)),
    "epoch seconds": Export(
        text(
            "a.csv",
            [
                header(),
                *(f"{int(t.timestamp())}{r}" for t, r in zip(TIMES, rows(",", ""), strict=True)),
            ],
        ),
        zone=True,
        notes=("seconds since 1970",),
    ),
    "epoch milliseconds": Export(
        text(
            "a.csv",
            [
                header(),
                *(f"{int(t.timestamp())}000{r}" for t, r in zip(TIMES, rows(",", ""), strict=True)),
            ],
        ),
        zone=True,
        notes=("milliseconds since 1970",),
    ),
    "transposed": Export(text("a.csv", transposed()), notes=("it was turned",)),
    "values and flags": Export(text("a.csv", flags()), notes=("V (20), N (4)",)),
    "below a limit": Export(
        text("a.csv", below_limit()[0]), cells=below_limit()[1], notes=("limit of detection",)
    ),
    "a folder of stations": Export(folder_of_stations, notes=("3 files",)),
    "a zip archive": Export(archive, notes=("3 files",)),
    "xlsx with a sheet of notes": Export(lambda folder: workbook(folder, ".xlsx")),
    "ods with a sheet of notes": Export(lambda folder: workbook(folder, ".ods")),
    "PurpleAir, history": Export(purpleair, ids=["1000", "1001", "1002"], zone=True),
    "PurpleAir, a file a sensor": Export(
        purpleair_folder,
        ids=[f"{n} 2024-01-30 2024-01-31 60-Minute Average" for n in IDS],
        zone=True,
    ),
    "OpenAQ": Export(text("a.csv", openaq()), ids=["4000", "4001", "4002"], zone=True),
    "EEA, reported data": Export(text("a.csv", eea_old()), zone=True),
    "EEA, Parquet": Export(eea_new, ids=[f"DE/SPO.{n}" for n in IDS], zone=True),
    "EPA AQS": Export(text("a.csv", aqs()), ids=[f"06-001-{name[-4:]}" for name in IDS], zone=True),
    "OpenAQ, archive in folders": Export(openaq_archive, ids=["4000", "4001", "4002"], zone=True),
    "UBA": Export(
        text("a.csv", uba()),
        {"parameter": "PM₁₀"},
        hint="parameter",
        notes=("24:00", "below the table"),
    ),
    "hours across, H01 to H24": Export(
        text("a.csv", hours_across("station,date", "H{:02d}", "%Y-%m-%d")),
        cells=IN_DAYS, times=DAYS, notes=("24 hours of a day", "Hours 1 to 24"),
    ),
    "hours across, 1 to 24": Export(
        text("a.csv", hours_across("Station;Datum", "{}", "%d.%m.%Y", ";")),
        cells=IN_DAYS, times=DAYS, notes=("24 hours of a day",),
    ),
    "hours across, with flags": Export(
        text("a.csv", hours_across("ESTACION;FECHA", "H{:02d}", "%Y-%m-%d", ";", "V{:02d}")),
        cells=IN_DAYS, times=DAYS, notes=("24 hours of a day", "N (124), V (20)"),
    ),
    "hours across, one station": Export(
        text("mitte.csv", one_station_by_hours()), ids=["mitte"],
        cells={"mitte": ["", *IN_DAYS["DEBE010"][:47]]}, times=DAYS - pd.Timedelta(hours=1),
    ),
    "hours across, Mid and Noon": Export(
        text("mitte.csv", by_halves_of_the_day("Mid", "Noon", False)), ids=["mitte"],
        cells={"mitte": ["", *IN_DAYS["DEBE010"][:47]]}, times=DAYS - pd.Timedelta(hours=1),
        notes=("24 hours of a day",),
    ),
    "hours across, AM and PM": Export(
        text("mitte.csv", by_halves_of_the_day("12:00 AM", "12:00 PM", True)), ids=["mitte"],
        cells={"mitte": IN_DAYS["DEBE010"]}, times=DAYS, notes=("24 hours of a day",),
    ),
    "transposed, with a unit": Export(
        text("a.csv", turned_with("station;unit", "µg/m³")), notes=("it was turned",)
    ),
    "transposed, with more": Export(
        text("a.csv", turned_with("Kennung;Ort;Komponente;Einheit", "Berlin;PM10;µg/m³")),
        notes=("it was turned", "The parameter is PM10"),
    ),
    "rows twice": Export(
        text("a.csv", [*table_lines(), *table_lines()[2:4]]), notes=("2 rows repeated",)
    ),
    "comments, decimal comma, UTC": Export(
        text("a.csv", [
            "# Messnetz Berlin", "# PM10; Einheit: µg/m³", "#", header(";", "Zeitpunkt (UTC)"),
            *rows(";", "%Y-%m-%dT%H:%M:%SZ", comma=True),
        ]), zone=True,
    ),
    "Campbell TOA5": Export(text("a.csv", toa5()), notes=("units: ug/m3", "RECORD")),
    "OpenAQ, version 3": Export(
        text("a.csv", openaq_v3(True)), ids=["3900", "3901", "3902"], zone=True
    ),
    "OpenAQ, version 3, one sensor": Export(
        text("mitte.csv", openaq_v3(False)), ids=["mitte"], cells=only("DEBE010"), zone=True
    ),
    "AirNow": Export(text("a.csv", airnow()), ids=["060010010", "060010034", "060010065"]),
    "UK-AIR, one station": Export(
        text("a.csv", uk_air(["Leeds Centre"])), cells=only("DEBE010"),
        ids=["PM<sub>10</sub> particulate matter (Hourly measured)"], notes=("24:00", "R (7)"),
    ),
    "UK-AIR, stations side by side": Export(
        text("a.csv", uk_air(["Aberdeen", "Leeds Centre", "York"])),
        ids=["Aberdeen", "Leeds Centre", "York"], notes=("two rows", "R (20)"),
    ),
    "UK-AIR, hours across": Export(
        text("wrexham.csv", uk_air_year()), ids=["wrexham"],
        cells={"wrexham": IN_DAYS["DEBE010"]}, times=DAYS,
    ),
    "UK-AIR, several quantities": Export(
        text("cardiff.csv", uk_air_quantities()), {"parameter": "PM<sub>10"}, hint="parameter",
        ids=["cardiff"], cells=only("DEBE010"),
    ),
    "Geod'air": Export(
        text("a.csv", geodair()), ids=[f"FR{n[-5:]}" for n in IDS], notes=("A (20), N (4)",)
    ),
    "Sensor.Community": Export(
        text("a.csv", sensor_community()), {"parameter": "pm10"}, hint="parameter='pm10'",
        ids=["100", "101", "102"], zone=True,
    ),
    "PurpleAir, two channels": Export(
        text("a.csv", [
            "time_stamp,sensor_index,humidity,pm2.5_atm_a,pm2.5_atm_b",
            *long_rows(lambda n, i, c: (
                f"{int(TIMES[i].timestamp())},{1000 + IDS.index(n)},45,{c},7.5")),
        ]), {"parameter": "pm2.5_atm_a"}, hint="parameter='pm2.5_atm_a'",
        ids=["1000", "1001", "1002"], zone=True,
    ),
    "Davis": Export(
        text("davis.txt", davis()), {"parameter": "Temp Out"}, hint="parameter=",
        ids=["davis"], cells=only("DEBE010"),
    ),
    "WeatherLink": Export(text("a.csv", weatherlink())),
    "xlsx with merged titles": Export(
        merged_titles, notes=("above the column", "names units", "below the table")
    ),
    "NDBC, one buoy": Export(
        text("41099h2024.txt", ndbc()), {"parameter": "WTMP"}, hint="parameter='WDIR'",
        ids=["41099h2024"], cells=only("DEBE010"), notes=("runs of blanks", "NOAA's buoys"),
    ),
    "separated by blanks": Export(
        text("a.txt", ["Messnetz Berlin, PM10", *blanks("time", "%Y-%m-%dT%H:%M")]),
        notes=("runs of blanks", "above the column names"),
    ),
    "separated by blanks, date and time": Export(
        text("a.dat", ["# date time " + " ".join(IDS), *blanks("", "%Y-%m-%d %H:%M")[1:]]),
        notes=("runs of blanks", "two columns"),
    ),
    "separated by blanks, one name for date and time": Export(
        text("a.txt", blanks("time", "%Y-%m-%d %H:%M")), notes=("runs of blanks",),
    ),
    "separated by blanks, of R": Export(
        text("a.txt", from_r()), notes=("runs of blanks", "numbers the rows"),
    ),
    "UBA, one component": Export(
        text("a.csv", uba(1)), notes=("24:00", "below the table")
    ),
} | odd_layouts()  # fmt: skip
